"""The table of secret shapes: what each kind looks like and by which characters it is noticed.

Owns data only; `relay.core.redact` runs it. The shapes are those that the vendors document or that public
scanners agree on, at the end of 2026, a little widened where tokens have grown before.

No pattern matches a line break (private key blocks apart, see `relay.core.redact_pem`), so that text can
be redacted line by line. Every repetition is bounded, possessive, or the last thing in its pattern, and no
pattern has nested ones: matching is linear on any input.
"""

from __future__ import annotations

from relay.core.redact_finders import LEFT, cursor_key, discord_webhook, jwt
from relay.core.redact_keyword import GAP, KEY_END, SIGN, keyword
from relay.core.redact_pem import find_block
from relay.core.redact_rule import Rule, prefixed
from relay.core.redact_values import unwritten

RIGHT = r"(?![A-Za-z0-9])"
_WORD = "[A-Za-z0-9_-]"
_SLASH = r"\\?/"

RULES: tuple[Rule, ...] = (
    prefixed("anthropic_api", "Anthropic API key", "sk-ant-", rf"api\d\d-{_WORD}{{80,}}"),
    prefixed("anthropic_admin", "Anthropic admin key", "sk-ant-", rf"admin\d\d-{_WORD}{{80,}}"),
    prefixed("anthropic_oauth_access", "Claude OAuth access token", "sk-ant-", rf"oat\d\d-{_WORD}{{80,}}"),
    prefixed("anthropic_oauth_refresh", "Claude OAuth refresh token", "sk-ant-", rf"ort\d\d-{_WORD}{{80,}}"),
    prefixed("anthropic_session", "claude.ai session cookie", "sk-ant-", rf"sid\d\d-{_WORD}{{80,}}"),
    prefixed(
        "openai_svcacct",
        "OpenAI service account key",
        "sk-",
        rf"svcacct-{_WORD}{{20,200}}?T3BlbkFJ{_WORD}{{20,}}",
    ),
    prefixed(
        "openai_project",
        "OpenAI project key",
        "sk-",
        rf"(?:proj|admin|service)-{_WORD}{{20,200}}?T3BlbkFJ{_WORD}{{20,}}",
    ),
    prefixed("openrouter", "OpenRouter", "sk-", "or-v1-[0-9a-f]{64}" + RIGHT),
    prefixed("openai_legacy", "OpenAI legacy key", "sk-", "[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20,}"),
    prefixed("groq", "Groq", "gsk_", "[A-Za-z0-9]{52,}"),
    prefixed("xai", "xAI", "xai-", _WORD + "{70,}"),
    prefixed("perplexity", "Perplexity", "pplx-", "[A-Za-z0-9]{48,}"),
    prefixed("huggingface", "Hugging Face user token", "hf_", "[A-Za-z0-9]{34}" + RIGHT),
    prefixed("replicate", "Replicate", "r8_", _WORD + "{37}(?![A-Za-z0-9_-])"),
    prefixed("google_api", "Google or Gemini API key", "AIza", _WORD + "{35}" + RIGHT),
    prefixed("google_oauth_access", "Google OAuth access token", "ya29.", _WORD + "{30,}"),
    Rule(
        kind="google_oauth_refresh",
        vendor="Google OAuth refresh token",
        pivot="/",
        anchor=r"(?<=1/)/0|(?<=1\\/)\\/0",
        pattern=(rf"{LEFT}1(?:{_SLASH}){{2}}0{_WORD}{{40,}}"),
        back=(1, 2),
    ),
    prefixed("google_oauth_client_secret", "Google OAuth client secret", "GOCSPX-", _WORD + "{28,}"),
    prefixed("github_fine", "GitHub fine-grained token", "github_pat_", "[A-Za-z0-9_]{82,}"),
    prefixed("github_pat", "GitHub classic token", "ghp_", "[A-Za-z0-9]{36,}"),
    prefixed("github_oauth", "GitHub OAuth token", "gho_", "[A-Za-z0-9]{36,}"),
    prefixed("github_user", "GitHub user-to-server token", "ghu_", "[A-Za-z0-9]{36,}"),
    prefixed(
        "github_server_jwt",
        "GitHub server-to-server token, JWT form",
        "ghs_",
        rf"[0-9]{{1,20}}_{_WORD}{{1,1000}}+\.{_WORD}{{1,10000}}+\.{_WORD}{{1,}}",
    ),
    prefixed("github_server", "GitHub server-to-server token", "ghs_", "[A-Za-z0-9]{36,}"),
    prefixed("github_refresh", "GitHub refresh token", "ghr_", "[A-Za-z0-9]{36,}"),
    prefixed(
        "gitlab_routable", "GitLab routable token", "glpat-", rf"{_WORD}{{27,300}}+\.[0-9a-z]{{9}}{RIGHT}"
    ),
    prefixed("gitlab_pat", "GitLab token", "glpat-", _WORD + "{20,}"),
    Rule(
        kind="aws_access",
        vendor="AWS access key id",
        pivot="A",
        anchor="(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[A-Z2-7]{16}",
        pattern=(LEFT + "A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[A-Z2-7]{16}" + RIGHT),
        keep=unwritten,
    ),
    Rule(
        kind="aws_secret",
        vendor="AWS secret access key",
        pivot="k",
        anchor=KEY_END,
        folded=True,
        pattern=(
            r"(?i:(?<=secret_access_)|(?<=secretaccess)|(?<=secretaccess_)|(?<=secret_access))(?i:key)"
            rf"{GAP}{SIGN}\\{{0,3}}[\"'`]?((?:[A-Za-z0-9+=]|{_SLASH}){{40}}){RIGHT}"
        ),
        group=1,
        keep=unwritten,
    ),
    Rule(
        kind="azure_ad_secret",
        vendor="Azure AD client secret",
        pivot="~",
        anchor="(?<=[0-9]Q~)",
        pattern=(LEFT + r"(?<![_~.-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"),
        back=(5,),
    ),
    Rule(
        kind="azure_storage",
        vendor="Azure storage connection string",
        pivot="A",
        anchor="ccountKey=",
        pattern=(rf"AccountKey=((?:[A-Za-z0-9+]|{_SLASH}){{86}}==)"),
        group=1,
    ),
    prefixed("slack_bot", "Slack bot token", "xoxb-", "[0-9]{10,13}-[0-9]{10,13}-[A-Za-z0-9]{24,}"),
    *(
        prefixed("slack_user", "Slack user token", head, "[0-9]{10,13}(?:-[0-9]{10,13}){2}-[A-Za-z0-9-]{28,}")
        for head in ("xoxp-", "xoxe-")
    ),
    prefixed(
        "slack_app", "Slack app-level token", "xapp-", r"\d-[A-Z0-9]{1,32}-\d{1,32}-[a-z0-9]{8,}+" + RIGHT
    ),
    Rule(
        kind="slack_webhook",
        vendor="Slack webhook URL",
        pivot="k",
        anchor=r"s\.slack\.com(?<=hooks\.slack\.com)",
        folded=True,
        pattern=(
            rf"(?i:ks\.slack\.com){_SLASH}(?:services|workflows|triggers){_SLASH}"
            rf"((?:[A-Za-z0-9+]|{_SLASH}){{43,200}}+)"
        ),
        group=1,
    ),
    Rule(
        kind="discord_webhook",
        vendor="Discord webhook",
        pivot="w",
        anchor=r"ebhooks\\?/[0-9]{17}",
        folded=True,
        find=discord_webhook,
    ),
    Rule(
        kind="discord_bot",
        vendor="Discord bot token",
        pivot=".",
        anchor=rf"(?={_WORD}{{6}}\.{_WORD}{{27}})(?<={_WORD}{{23}}\.)",
        pattern=(rf"{LEFT}[MNO]{_WORD}{{23,25}}\.{_WORD}{{6}}\.{_WORD}{{27,38}}{RIGHT}"),
        back=(26, 25, 24),
    ),
    Rule(
        kind="telegram_bot",
        vendor="Telegram bot token",
        pivot="A",
        anchor="(?<=[0-9]:A)A",
        pattern=(rf"(?:(?<![0-9])|(?<=\\u[0-9a-fA-F]{{4}}))[0-9]{{8,10}}:AA{_WORD}{{33}}{RIGHT}"),
        back=(11, 10, 9),
    ),
    *(
        prefixed(kind, vendor, f"{start}_{mode}_", "[A-Za-z0-9]{10,}")
        for kind, vendor, start in (
            ("stripe_live", "Stripe secret key", "sk"),
            ("stripe_restricted", "Stripe restricted key", "rk"),
        )
        for mode in ("live", "test", "prod")
    ),
    Rule(
        kind="stripe_webhook",
        vendor="Stripe webhook signing secret",
        pivot="_",
        anchor="(?<=whsec_)",
        pattern=(rf"{LEFT}whsec_(?:[A-Za-z0-9+=]|{_SLASH}){{32,200}}+{_WORD}*+"),
        back=(5,),
    ),
    prefixed("npm", "npm token", "npm_", "[A-Za-z0-9]{36,}"),
    prefixed("pypi", "PyPI token", "pypi-", f"AgEIcHlwaS5vcmc{_WORD}{{50,}}"),
    prefixed("rubygems", "RubyGems", "rubygems_", "[a-f0-9]{48}" + RIGHT),
    *(
        prefixed("docker_pat", "Docker Hub token", head, _WORD + "{27,}")
        for head in ("dckr_pat_", "dckr_oat_")
    ),
    *(
        prefixed("digitalocean", "DigitalOcean token", head, "[a-f0-9]{64}" + RIGHT)
        for head in ("dop_v1_", "doo_v1_", "dor_v1_")
    ),
    prefixed("sendgrid", "SendGrid", "SG.", rf"{_WORD}{{22}}\.{_WORD}{{43}}{RIGHT}"),
    prefixed("twilio", "Twilio API key", "SK", "[0-9a-fA-F]{32}" + RIGHT),
    prefixed("vault", "HashiCorp Vault service token", "hvs.", _WORD + "{90,}"),
    Rule(
        kind="terraform",
        vendor="Terraform Cloud token",
        pivot=".",
        anchor=r"(?<=\.atlasv1\.)",
        near="v1",
        pattern=(LEFT + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
        back=(22,),
    ),
    prefixed("databricks", "Databricks", "dapi", r"[a-f0-9]{32}(?:-\d)?" + RIGHT),
    prefixed("linear", "Linear", "lin_api_", "[A-Za-z0-9]{40,}"),
    prefixed("notion", "Notion", "ntn_", "[0-9]{11}[A-Za-z0-9]{35,}"),
    prefixed("figma", "Figma token", "figd_", _WORD + "{40,}"),
    prefixed("grafana_sa", "Grafana service account", "glsa_", "[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}" + RIGHT),
    prefixed("postman", "Postman", "PMAK-", "[a-f0-9]{24}-[a-f0-9]{34}" + RIGHT),
    *(
        prefixed("shopify", "Shopify access token", head, "[a-fA-F0-9]{32}" + RIGHT)
        for head in ("shpat_", "shpca_", "shppa_", "shpss_")
    ),
    prefixed("atlassian", "Atlassian API token", "ATATT3", "[A-Za-z0-9_=-]{186,}"),
    prefixed("tailscale", "Tailscale auth key", "tskey-", f"(?:api|auth|client|webhook|scim)-{_WORD}{{20,}}"),
    prefixed("supabase", "Supabase management token", "sbp_", "[a-z0-9]{40}" + RIGHT),
    *(
        prefixed("vercel", "Vercel token", head, _WORD + "{20,}")
        for head in ("vcp_", "vci_", "vca_", "vcr_", "vck_")
    ),
    *(
        prefixed("cloudflare", "Cloudflare user token", head, "[A-Za-z0-9]{40}[0-9a-f]{8}" + RIGHT)
        for head in ("cfk_", "cfut_", "cfat_")
    ),
    *(
        prefixed("langsmith", "LangSmith", head, "[a-f0-9]{32}_[a-f0-9]{10}" + RIGHT)
        for head in ("lsv2_pt_", "lsv2_sk_")
    ),
    prefixed("sourcegraph", "Sourcegraph", "sgp_", "(?:[a-fA-F0-9]{16}|local)_[a-fA-F0-9]{40}" + RIGHT),
    Rule(kind="cursor", vendor="Cursor API key", pivot="_", anchor="(?<=key_)", near="ey", find=cursor_key),
    prefixed("age", "age secret key", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", pivot=0),
    Rule(
        kind="pem_openssh",
        vendor="OpenSSH private key",
        pivot="-",
        anchor="(?<=-----)BEGIN OPENSSH PRIVATE[ ]KEY",
        find=find_block,
    ),
    Rule(
        kind="pem_rsa",
        vendor="Private key (PEM or PGP)",
        pivot="-",
        anchor="(?<=-----)BEGIN(?! OPENSSH)[ A-Z0-9_-]{0,100}PRIVATE[ ]KEY",
        find=find_block,
    ),
    Rule(
        kind="jwt",
        vendor="JSON Web Token",
        pivot=".",
        anchor=rf"(?=ey{_WORD}{{17}})(?<={_WORD}{{19}}\.)",
        find=jwt,
    ),
    Rule(
        kind="bearer",
        vendor="Authorization header",
        pivot="z",
        anchor=r"ation(?<=authorization)" + GAP + "[:=]",
        folded=True,
        pattern=(
            rf"(?i:zation){GAP}{SIGN}\\{{0,3}}[\"'`]?(?i:bearer|token|basic)[ \t]{{1,8}}"
            rf"((?:[A-Za-z0-9._~+=-]|{_SLASH}){{16,}})"
        ),
        group=1,
        keep=unwritten,
    ),
    Rule(
        kind="url_basic",
        vendor="Credentials in a URL",
        pivot="/",
        anchor=r"(?:(?<=:/)/|(?<=:\\/)\\/)(?=[^\s:/@\"'\\]{0,64}:)",
        pattern=(rf"(?:{_SLASH}){{2}}[^\s:/@\"'\\]{{0,64}}:([^\s@/\"'\\]{{3,128}})@[^\s\"']"),
        back=(0, 1),
        group=1,
        keep=unwritten,
    ),
    keyword("k", r"en(?<=token)" + GAP + "[:=]"),
    keyword("k", KEY_END),
    keyword("w", r"ord(?<=password)" + GAP + "[:=]"),
    keyword("w", r"d(?<=passwd)" + GAP + "[:=]"),
    keyword("c", r"ret(?<=secret)" + GAP + "[:=]"),
    keyword("c", r"redential" + GAP + "[:=]"),
)
"""Every rule. Where two match the same text, the first one names it; the generic rule comes last."""
