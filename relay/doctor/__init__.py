"""What `relay doctor` checks: the machine, the state folder, the daemon, the repository, the agents' CLIs.

Nothing here changes anything. `relay.doctor.run` is called by `relay.cli.doctor`; no one else imports this.
"""

from __future__ import annotations
