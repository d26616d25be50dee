"""The report's CSS, for light and dark mode, screen and print; the page loads nothing from elsewhere."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

_LIGHT: Final = """
--page:#f5f6f8;--card:#fff;--ink:#1b2430;--quiet:#637083;--line:#dfe3e9;--ground:#eef1f5;
--good:#1f8a5b;--low:#b86e00;--grave:#c8323c;--under:#f0a92e;--offline:#d8404a;--short:#c9d3e0;
--serving:#9db4cc;--leaving:#e0a94a;--fenced:#d8404a;
--n0:#4e79a7;--n1:#59a14f;--n2:#9c755f;--n3:#b07aa1;--n4:#499894;--n5:#7b8cc4;--n6:#8cab5a;--n7:#6b7f94;--in:#fff
"""
_DARK: Final = """
--page:#10151c;--card:#171e27;--ink:#e3e9f0;--quiet:#8c9aab;--line:#2a3442;--ground:#1d2632;
--good:#45c48a;--low:#f0b14a;--grave:#ff6b70;--under:#f0a92e;--offline:#ef5059;--short:#3a4a5e;
--serving:#46607c;--leaving:#b98a38;--fenced:#ef5059;
--n0:#5b8fc7;--n1:#5fae58;--n2:#a8836d;--n3:#bb88ac;--n4:#4fa6a1;--n5:#8495d0;--n6:#93b562;--n7:#7890a8;--in:#0d1218
"""
_PAGE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink)}
body{font:14px/1.45 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1260px;margin:0 auto;padding:28px 24px 60px}
header{display:flex;justify-content:space-between;align-items:baseline;gap:24px;flex-wrap:wrap;margin-bottom:14px}
h1{font-size:26px;margin:0;letter-spacing:-.01em}
h2{font-size:18px;margin:0 0 4px}
h3{font-size:14px;margin:22px 0 6px}
h3 small,.note{color:var(--quiet);font-weight:400;font-size:13px}
p{margin:2px 0 8px}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:20px 24px;margin:16px 0}
code{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
nav a{color:var(--quiet);margin-left:14px;text-decoration:none}
nav a:hover,nav a:focus{color:var(--ink);text-decoration:underline}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(122px,1fr));gap:10px;margin:14px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:9px 12px}
.tile{border-top:3px solid var(--line)}
.tile small,.tile span{display:block;color:var(--quiet);font-size:12px}
.tile strong{display:block;white-space:nowrap;font-size:18px;font-weight:650}
.tile strong{font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.tile.good{border-top-color:var(--good)}.tile.low{border-top-color:var(--low)}.tile.grave{border-top-color:var(--grave)}
.grave{color:var(--grave)}.good{color:var(--good)}.low,.mild{color:var(--low)}
.tile.grave,.tile.good,.tile.low{color:inherit}.tile.grave strong{color:var(--grave)}.tile.low strong{color:var(--low)}
"""
_TABLES: Final = """
.wide{overflow-x:auto}
.long{max-height:640px;overflow:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{position:sticky;top:0;background:var(--card);color:var(--quiet);font-weight:500;font-size:12px;text-align:left}
th,td{padding:3px 12px 3px 0;border-bottom:1px solid var(--line);vertical-align:top}
.long th,.long td{padding-left:10px}
#grave:checked~.long tbody tr:not(.is-grave){display:none}
td{overflow-wrap:anywhere}
tr:hover td{background:var(--ground)}
.number{text-align:right;white-space:nowrap}
.time,td.bar{white-space:nowrap}
td.bar{min-width:150px}
.bar b{display:inline-block;width:84px;height:9px;margin-right:8px;background:var(--ground);border-radius:2px}
td.slim{min-width:0}.slim .bar b{width:44px;margin-right:6px}
.bar i{display:block;height:9px;border-radius:2px}
.legend span{display:inline-block;margin-right:18px;color:var(--quiet);font-size:12px}
.legend i{display:inline-block;width:12px;height:12px;margin-right:6px;border-radius:2px;vertical-align:-2px}
"""
_PICTURES: Final = """
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:11.5px;fill:var(--ink)}
svg .label{text-anchor:end}svg .tick{fill:var(--quiet);font-size:11px}
svg .in{fill:var(--in)}svg .in,svg .over{font-size:11px;pointer-events:none}
.grid{stroke:var(--line)}.ground{fill:var(--ground)}.omitted{fill:var(--line)}
svg .silent{fill:var(--card);stroke:var(--grave);stroke-dasharray:3 2}
.legend i.silent{background:var(--card);border:1px dashed var(--grave)}
line.mark{stroke-dasharray:2 3;stroke:var(--grave);opacity:.75}
.legend i.fencing{width:0;border-left:2px dotted var(--grave)}
svg path,svg rect{shape-rendering:crispEdges}
"""
_LOOKS: Final = (
    *("good", "low", "offline", "under", "short", "serving", "leaving", "fenced"),
    *(f"n{number}" for number in range(8)),
)
_FILLS: Final = "".join(f"svg .{look}{{fill:var(--{look})}}i.{look}{{background:var(--{look})}}" for look in _LOOKS)
_CALENDAR: Final = """
svg .well{fill:var(--good)}svg .ill1{fill:var(--under)}svg .ill2{fill:var(--low)}svg .ill3{fill:var(--grave)}
i.well{background:var(--good)}i.ill1{background:var(--under)}i.ill2{background:var(--low)}i.ill3{background:var(--grave)}
"""
_PAPER: Final = "@media print{.long{max-height:none}section{break-inside:auto;border:0}nav{display:none}}"

STYLE: Final = (
    f":root{{color-scheme:light dark;{_LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    + _PAGE
    + _TABLES
    + _PICTURES
    + _FILLS
    + _CALENDAR
    + _PAPER
)
