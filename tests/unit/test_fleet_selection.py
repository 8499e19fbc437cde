"""Which processes ``heaptop serve`` attaches to, by its rules and its file."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaptop.errors import ConfigError
from heaptop.fleet import configuration, scanning
from heaptop.fleet.audit import audit
from heaptop.fleet.configuration import FleetConfig, load
from heaptop.fleet.scanning import seen_processes
from heaptop.fleet.selection import (
    MIN_AGE,
    MIN_RSS,
    SeenProcess,
    SelectRule,
    cgroup_path,
    choose,
    container_of,
    unit_of,
)
from heaptop.injector.inspect.process import stat_fields

ID = "0f" * 32
SHOP = SeenProcess(10, 1, "www", "/usr/bin/python3 shop.py --port 80", "shop", 200_000_000, 3600.0)

processes = st.lists(
    st.builds(
        SeenProcess,
        pid=st.integers(1, 50),
        start=st.sampled_from([1, 2]),
        user=st.sampled_from(["www", "root"]),
        command=st.sampled_from(["python shop.py", "python jobs.py", "python -m celery"]),
        name=st.sampled_from(["shop", "jobs", ""]),
        rss=st.integers(0, 1 << 34),
        age=st.floats(0, 1e6),
        unit=st.sampled_from(["", "shop.service", "session-3.scope"]),
    ),
    unique_by=lambda seen: seen.key,
    max_size=20,
)
rules = st.lists(
    st.builds(
        SelectRule,
        name=st.sampled_from(["", "web", "batch"]),
        command=st.sampled_from([None, re.compile("shop"), re.compile("py$")]),
        user=st.sampled_from(["", "www"]),
        unit=st.sampled_from(["", "shop*"]),
        min_rss=st.sampled_from([0, MIN_RSS]),
        min_age=st.sampled_from([0.0, MIN_AGE]),
        exclude=st.booleans(),
    ),
    max_size=4,
)


# -- the choice ------------------------------------------------------------------------------------------------


@given(rules, processes, st.integers(1, 10), st.sets(st.tuples(st.integers(1, 50), st.sampled_from([1, 2]))))
def test_the_choice_keeps_to_its_limit_and_its_rules(
    given_rules: list[SelectRule], seen: list[SeenProcess], limit: int, held: set[tuple[int, int]]
) -> None:
    chosen = choose(given_rules, seen, limit, held)
    keys = {one.key for one in chosen}
    assert len(chosen) == len(keys) <= limit
    assert all(one.service for one in chosen)
    excluding = [rule for rule in given_rules if rule.exclude]
    assert not any(rule.is_met_by(one.seen) for rule in excluding for one in chosen)
    new = [one.seen for one in chosen if one.key not in held]
    left = [one for one in choose(given_rules, seen, 1000, held) if one.key not in keys]
    assert all(one.key not in held for one in left) or not new
    if new and left:
        assert min(one.rss for one in new) >= max(one.seen.rss for one in left if one.key not in held)


@given(rules, processes, st.integers(1, 10))
def test_a_choice_made_again_of_the_same_processes_is_the_same(
    given_rules: list[SelectRule], seen: list[SeenProcess], limit: int
) -> None:
    first = {one.key for one in choose(given_rules, seen, limit)}
    assert {one.key for one in choose(given_rules, seen, limit, first)} == first


def test_without_rules_every_large_old_process_is_chosen() -> None:
    small = SeenProcess(11, 1, "www", "python a.py", "a", MIN_RSS - 1, 3600.0)
    young = SeenProcess(12, 1, "www", "python b.py", "b", MIN_RSS, MIN_AGE - 1)
    assert [one.key for one in choose((), [small, young, SHOP], 9)] == [SHOP.key]
    only_excluding = [SelectRule(user="www", exclude=True)]
    assert choose(only_excluding, [SHOP], 9) == []


def test_of_equally_large_processes_the_youngest_comes_first() -> None:
    """Where processes come and end all the time, the oldest would end during each attach, and then the next."""
    workers = [replace(SHOP, pid=20 + start, start=start) for start in (3, 1, 2)]
    larger = replace(SHOP, pid=90, rss=SHOP.rss + 1)
    assert [one.seen.start for one in choose((), [*workers, larger], 9)] == [1, 3, 2, 1]
    assert [one.seen.start for one in choose((), workers, 1, {(21, 1)})] == [1], "an attached one stays"


def test_an_attached_process_that_shrinks_stays_chosen() -> None:
    shrunk = SeenProcess(10, 1, "www", "python shop.py", "shop", 1, 3600.0)
    assert choose((), [shrunk], 9) == []
    assert [one.key for one in choose((), [shrunk], 9, {shrunk.key})] == [shrunk.key]


@pytest.mark.parametrize(
    ("rule", "seen", "service"),
    [
        (SelectRule(name="web"), SHOP, "web"),
        (SelectRule(name="web-{pid}"), SHOP, "web-10"),
        (SelectRule(name="{0} {pod} {"), SHOP, "{0} {pod} {"),
        (SelectRule(), replace(SHOP, name="{pid}"), "{pid}"),
        (SelectRule(), SHOP, "shop"),
        (SelectRule(), SeenProcess(1, 1, "", "", "", 0, 0.0), "python"),
        (SelectRule(), SeenProcess(1, 1, "", "", "app", 0, 0.0, unit="shop@1.service"), "shop@1"),
        (SelectRule(), SeenProcess(1, 1, "", "", "app", 0, 0.0, unit="docker-1.scope"), "app"),
        (SelectRule(), SeenProcess(1, 1, "", "", "app", 0, 0.0, unit="user@1000.service"), "app"),
    ],
)
def test_a_service_is_named_by_its_rule_its_unit_or_its_program(
    rule: SelectRule, seen: SeenProcess, service: str
) -> None:
    assert [one.service for one in choose([rule], [seen], 9)] == [service]


# -- control groups --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit", "container"),
    [
        ("0::/system.slice/shop.service\n", "shop.service", ""),
        (f"0::/system.slice/docker-{ID}.scope\n", f"docker-{ID}.scope", ID),
        (f"12:memory:/docker/{ID}\n1:name=systemd:/\n", "", ID),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n", f"cri-containerd-{ID}.scope", ID),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/a:b.service\n", "user@0.service", ""),
        ("0::/user.slice/user-0.slice/user@0.service/a.slice/user@x.service\n", "user@0.service", ""),
        ("0::/system.slice/a:b.service\n", "a:b.service", ""),
        ("0::/\n", "", ""),
        ("", "", ""),
        ("nonsense", "", ""),
    ],
)
def test_units_and_containers_are_read_from_the_control_group(text: str, unit: str, container: str) -> None:
    path = cgroup_path(text)
    assert (unit_of(path), container_of(path)) == (unit, container)


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85", "\r"])
def test_no_name_of_a_control_group_passes_for_a_path(separator: str) -> None:
    text = f"0::/user.slice/x{separator}0::/system.slice/shop.service/a/b/c/d/e\n"
    assert cgroup_path(text) == text.removeprefix("0::").removesuffix("\n")


@given(st.text())
def test_any_control_group_is_read(text: str) -> None:
    path = cgroup_path(text)
    assert path in text
    assert unit_of(path) in path
    assert container_of(path) in path


def test_a_pod_is_chosen_by_its_name() -> None:
    rules = [SelectRule(name="shop", pod="shop-*"), SelectRule(name="rest")]
    pods = ("shop-5d9f-x2", "jobs-0", "")
    chosen = choose(rules, [replace(SHOP, pid=pid, pod=pod) for pid, pod in enumerate(pods, 1)], 10)
    assert {one.seen.pod: one.service for one in chosen} == {"shop-5d9f-x2": "shop", "jobs-0": "rest", "": "rest"}
    assert choose([SelectRule(pod="*")], [replace(SHOP, pod="")], 10) == []


UID = "0b4a2f6e-8f3c-4d1e-9a57-c2d9f0a1b3c4"


@pytest.mark.parametrize(
    ("name", "group", "pod"),
    [
        ("shop-5d9f-x2", "/kubepods/burstable/pod1/c", "shop-5d9f-x2"),
        ("shop-5d9f-x2", "/kubepods.slice/kubepods-pod1.slice/c", "shop-5d9f-x2"),
        ("shop-5d9f-x2", f"/../../../burstable/pod{UID}/c", "shop-5d9f-x2"),
        ("shop-5d9f-x2", f"/../../pod{UID.replace('-', '')}/c", "shop-5d9f-x2"),
        ("shop-5d9f-x2", "/user.slice", ""),
        ("a\nb", "/kubepods/pod1", ""),
        ("x" * 300, "/kubepods/pod1", ""),
        ("", "/kubepods/pod1", ""),
    ],
)
def test_the_name_of_a_pod_is_in_the_environment_of_its_processes(
    monkeypatch: pytest.MonkeyPatch, name: str, group: str, pod: str
) -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    command, environ = [sys.executable, "-c", code], {"OTHER": "HOSTNAME=no", "HOSTNAME": name}
    monkeypatch.setattr(scanning, "_cgroup", lambda pid: group)
    # Not a child of ours: these are never seen.
    with subprocess.Popen(
        ["sh", "-c", 'exec 3<&0; "$0" "$@" <&3 & wait', *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdin is not None
        shell.stdout.readline()
        (found,) = [one.pod for one in seen_processes() if code in one.command and is_below(one.pid, shell.pid)]
        shell.stdin.close()
    assert found == pod


def is_below(pid: int, parent: int) -> bool:
    return int(stat_fields(f"/proc/{pid}/stat")[scanning.PARENT]) == parent


# -- the file --------------------------------------------------------------------------------------------------


def config(folder: Path, text: str) -> FleetConfig:
    file = folder / "fleet.toml"
    file.write_text(text)
    return load(file)


def test_a_file_of_all_keys(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        f"""
        limit = 10
        interval = 30
        share = 2
        budget = 6
        rate = "50/s"
        pause_budget = 20
        top = 5
        hunt = "5m"
        hunt_cooldown = "6h"
        [[select]]
        name = "web"
        command = "gunicorn .*shop"
        user = "www"
        cgroup = "^/system"
        unit = "shop*.service"
        container = "{ID[:12]}"
        pod = "shop-*"
        min_rss = "100MB"
        min_age = "5m"
        [[select]]
        user = "ci"
        exclude = true
        """,
    )
    web, ci = found.rules
    assert (web.name, web.min_rss, web.min_age, web.exclude) == ("web", 100_000_000, 300.0, False)
    assert (ci.user, ci.min_rss, ci.min_age, ci.exclude) == ("ci", 0, 0.0, True)
    assert (found.rate, found.pause_budget, found.top, found.interval) == (50, 0.02, 5, 30.0)
    assert (found.hunt, found.hunt_cooldown) == (300.0, 21_600.0)
    assert found.most_attached == 3


def test_a_guard_of_all_keys(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        f"""
        reports_dir = "{tmp_path / "reports"}"
        reports_quota = "10MB"
        [[guard]]
        service = "shop-*"
        when = ["rss > 80% of limit", "every 6h"]
        do = ["hunt", "record", "dump"]
        for = 20
        cooldown = "1h"
        at_most = 3
        webhook = "http://127.0.0.1/x"
        command = ["logger", "-t", "heaptop"]
        """,
    )
    (guard,) = found.guards
    assert guard.service == "shop-*"
    assert [str(trigger) for trigger in guard.rule.triggers] == ["rss > 80% of limit", "every 6h"]
    assert (guard.rule.hunts, guard.rule.records, guard.rule.dumps) == (True, True, True)
    assert guard.rule.hunt_seconds == 20.0
    assert (guard.rule.cooldown, guard.rule.at_most) == (3600.0, 3)
    assert (guard.rule.webhook, guard.rule.command) == ("http://127.0.0.1/x", ("logger", "-t", "heaptop"))
    assert (found.reports_dir, found.reports_quota) == (tmp_path / "reports", 10_000_000)
    assert (tmp_path / "reports").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("made_by", ["another user", "everybody", "a link"])
def test_no_reports_go_where_another_user_could_exchange_the_folder(tmp_path: Path, made_by: str) -> None:
    """Below a folder that is theirs, they could move ours away and put a link to /etc in its place."""
    above = tmp_path / "above"
    above.mkdir()
    assert config(tmp_path, f'reports_dir = "{above}/inner/reports"').reports_dir == above / "inner/reports"
    path = above
    if made_by == "everybody":
        above.chmod(0o777)
    elif os.geteuid() != 0:
        pytest.skip("only root gives files away")
    elif made_by == "another user":
        os.chown(above, 65534, 65534)
    else:
        path = tmp_path / "link"
        path.symlink_to(above)
        os.chown(path, 65534, 65534, follow_symlinks=False)
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, f'reports_dir = "{path}/inner/reports"')
    assert f"could exchange {path}" in (caught.value.why or "")
    if made_by == "everybody":
        above.chmod(0o1777)  # as /tmp: only owners remove what is in it
        config(tmp_path, f'reports_dir = "{path}/inner/reports"')


def test_a_folder_for_reports_behind_links_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "link")
    with pytest.raises(ConfigError, match="reports_dir"):
        config(tmp_path, f'reports_dir = "{tmp_path}/link/reports"')


def test_a_push_with_its_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("basic heaptop:0123456789abcdef\n")
    secret.chmod(0o600)
    push = config(tmp_path, f'[push]\nurl = "https://a.b/x"\ninterval = 15\ncredentials = "{secret}"').push
    assert push is not None
    assert (push.url, push.interval) == ("https://a.b/x", 15.0)
    assert push.authorization == "Basic aGVhcHRvcDowMTIzNDU2Nzg5YWJjZGVm"
    secret.write_text("bearer 0123456789abcdef\n")
    push = config(tmp_path, f'[push]\nurl = "http://127.0.0.1:4040"\ncredentials = "{secret}"').push
    assert push is not None
    assert push.authorization == "Bearer 0123456789abcdef"
    with pytest.raises(ConfigError, match="without encryption"):
        config(tmp_path, f'[push]\nurl = "http://a.b"\ncredentials = "{secret}"')
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="`credentials` cannot be") as caught:
        config(tmp_path, f'[push]\nurl = "https://a.b"\ncredentials = "{secret}"')
    assert caught.value.why == f"Use a file of secrets: other users may read or change {secret} (mode 644)."


def test_a_rule_that_states_no_size_keeps_the_default_one(tmp_path: Path) -> None:
    (rule,) = config(tmp_path, '[[select]]\nuser = "www"').rules
    assert (rule.min_rss, rule.min_age) == (MIN_RSS, MIN_AGE)
    assert config(tmp_path, 'rate = "off"').rate == 0
    assert config(tmp_path, 'hunt = "off"').hunt == 0
    assert config(tmp_path, "") == FleetConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limits = 3", "unknown key `limits`; did you mean `limit`."),
        ("limit = 0", "`limit` cannot be 0"),
        ("limit = true", "`limit` cannot be true"),
        ('share = "1"', '`share` cannot be "1"'),
        ("share = 2\nbudget = 1", "`budget` is less than the `share`"),
        ('rate = "20"', '`rate` cannot be "20"'),
        ('rate = "0/s"', "`rate` cannot be"),
        ("hunt = 0", "`hunt` cannot be 0"),
        ("hunt = nan", "`hunt` cannot be nan"),
        ('hunt = "7s"', "`hunt` cannot be"),
        ('hunt_cooldown = "soon"', "`hunt_cooldown` cannot be"),
        ("interval = nan", "`interval` cannot be nan"),
        ('select = "www"', '`select` is "www"'),
        ("select = [1]", "`select` is an array"),
        ('[[select]]\ncomand = "a"', "[[select]] 1: unknown key `comand`; did you mean `command`."),
        ('[[select]]\ncommand = "("', "[[select]] 1: `command` cannot be"),
        ('[[select]]\n[[select]]\nuser = ""', "[[select]] 2: `user` cannot be"),
        ('[[select]]\nmin_rss = "big"', "`min_rss` cannot be"),
        ('[[select]]\nmin_age = "soon"', "`min_age` cannot be"),
        ("[[select]]\nmin_age = -1", "`min_age` cannot be"),
        ('[[select]]\ncontainer = "web"', "`container` cannot be"),
        ('[[select]]\nexclude = "yes"', "`exclude` cannot be"),
        ('[[select]]\ncommand = "a{99999999999}"', "`command` cannot be"),
        (f'[[select]]\ncommand = "{"(" * 5000}"', "`command` cannot be"),
        (f"limit = {'9' * 5000}", "cannot be read"),
        (f"[[select]]\nmin_rss = {'9' * 4000}", "`min_rss` cannot be"),
        ("reports_dir = 1", "`reports_dir` cannot be 1"),
        ('reports_dir = "reports"', "`reports_dir` cannot be"),
        ('reports_dir = "/proc/1/reports"', "`reports_dir` cannot be"),
        ('reports_quota = "1MB"', "`reports_quota` cannot be"),
        ('[[guard]]\nwhen = "every 6h"', "[[guard]] 1: `service` is missing"),
        ('[[guard]]\nservice = "a"', "[[guard]] 1: `when` is missing"),
        ('[[guard]]\nservice = "a"\nwhen = "every 6h"', "needs `reports_dir`"),
        ('[[guard]]\nwhen = "rss > much"', "`when` cannot be"),
        ("[[guard]]\nwhen = []", "`when` cannot be"),
        ('[[guard]]\ndo = ["dumps"]', "`do` cannot be"),
        ('[[guard]]\ndo = [["hunt"]]', "`do` cannot be"),
        ('[[guard]]\nwebhook = "ftp://a"', "`webhook` cannot be"),
        ('[[guard]]\nservice = "a"\nwhen = "every 6h"\ndo = ["alertmanager"]', "need each other"),
        ('[[guard]]\nalertmanager = "127.0.0.1:9093"', "`alertmanager` cannot be"),
        ('[[guard]]\ncommand = "rm -rf"', "`command` cannot be"),
        ("[[guard]]\nat_most = 0", "`at_most` cannot be"),
        ("push = 1", "`push` is 1"),
        ("[push]", "[push]: `url` is missing"),
        ('[push]\nurl = "pyroscope:4040"', "`url` cannot be"),
        ('[push]\nurl = "http://a"\ninterval = 1', "`interval` cannot be 1"),
        ('[push]\nurl = "http://a"\ncredentials = "/nowhere/secret"', "`credentials` cannot be"),
        ('[push]\nname = "a"', "[push]: unknown key `name`"),
        ("limit = = 3", "line 1, column 9: this is not TOML"),
    ],
)
def test_an_error_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, text)
    assert said in caught.value.message
    assert "docs/fleet.md" in caught.value.fix


def test_the_page_lists_every_key_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")
    keys = page.partition("## What it attaches to")[2].partition("## Paths")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", keys, re.MULTILINE)
    assert [key for key, _ in rows] == [*configuration._RULE_KEYS, *configuration._KEYS]
    defaults = dict(rows)
    config = FleetConfig()
    assert [defaults[key] for key in configuration._KEYS] == [
        f"{config.limit}",
        f"{config.interval:g}",
        f"{100 * config.share:g}",
        f"{100 * config.budget:g}",
        f'`"{config.rate}/s"`',
        f"{1000 * config.pause_budget:g}",
        f"{config.top}",
        f'`"{config.hunt / 60:g}m"`',
        f'`"{config.hunt_cooldown / 3600:g}h"`',
        "none: needed with `[[guard]]`",
        f"{config.reports_quota // 1_000_000} MB",
    ]
    for name, known in (("guard", configuration._GUARD_KEYS), ("push", configuration._PUSH_KEYS)):
        head = f"| key of `[[{name}]]` |" if name == "guard" else f"| key of `[{name}]` |"
        table = page.partition(head)[2].partition("\n\n")[0]
        assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*known]


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")


# -- processes, and the log ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_heaptop_started_itself_is_not_seen() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    script = '"$0" -c "$1" & echo $!; wait'
    with (
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as own,
        subprocess.Popen(
            ["sh", "-c", f"exec 3<&0; {script.replace('&', '<&3 &', 1)}", sys.executable, code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as shell,
    ):
        assert own.stdout is not None
        assert shell.stdout is not None
        own.stdout.readline()
        said = [shell.stdout.readline() for _ in range(2)]
        other = next(int(line) for line in said if line.strip())
        seen = {one.pid: one for one in seen_processes()}
        assert own.pid not in seen
        assert os.getpid() not in seen
        assert seen[other].age < 3600
        assert seen[other].rss > 0
        for process in (own, shell):
            assert process.stdin is not None
            process.stdin.close()


def test_no_name_forges_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    audit("attach", pid=1, service='a" event=detach\ntime=0 event=error', user="\x1b[2J", way="")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    fields = dict(word.partition("=")[::2] for word in shlex.split(line))
    assert (fields["event"], fields["pid"], fields["way"]) == ("attach", "1", "")
    assert list(fields) == ["time", "event", "by", "pid", "service", "user", "way"]
