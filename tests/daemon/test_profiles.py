"""Which chain a session gets when the request names none."""

from __future__ import annotations

from tests.fakes.live import Live

PROFILES = """
[profiles.pages]
kinds = ["docs"]
chain = ["scripted/writer"]

[profiles.others]
kinds = ["feature"]
chain = ["scripted/maker"]
"""


async def begun(home: Live, task: str, **body: object) -> tuple[str, list[str]]:
    """Which account a session for this task begins with, and what is said about it."""
    folder = home.root / "project"
    repository = folder if folder.exists() else home.repository()
    made = await home.post("/api/sessions", task=task, cwd=str(repository), **body)
    view = await home.reach(made["sessionId"], "COMPLETED")
    return view["chain"][0], made["notes"]


async def test_a_profile_is_chosen_by_the_sort_of_the_task_and_said(home: Live) -> None:
    home.settings = PROFILES
    for label in ("writer", "maker"):
        home.plays(label)
    await home.start()

    assert await begun(home, "Document the API") == (
        "scripted/writer",
        ["profile pages, by the sort of the task; -p or --profile choose otherwise"],
    )
    assert (await begun(home, "Add a webhook"))[0] == "scripted/maker"
    assert await begun(home, "Add a webhook", profile="pages") == ("scripted/writer", [])
    assert await begun(home, "Add a webhook", providers=["scripted/writer"]) == ("scripted/writer", [])
