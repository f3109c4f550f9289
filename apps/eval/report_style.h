// The look of a report: system fonts, one column that fits a telephone, light and dark.
#pragma once

namespace ringkeep::eval {

inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--ink:#1c1b1a;--dim:#5d5a55;--line:#dedad3;
--c0:#0b62a8;--c1:#b3501b;--c2:#2c7a3f;--c3:#8a3fa0;--c4:#a8323f;--c5:#0e7c7b;--c6:#6f6412;--c7:#50565e}
@media (prefers-color-scheme:dark){:root{--bg:#161719;--card:#1e2023;--ink:#ececea;--dim:#a9a8a4;
--line:#3a3d42;--c0:#6db3f2;--c1:#f0a06a;--c2:#7fcf92;--c3:#d39be6;--c4:#f08c96;--c5:#63cfcb;
--c6:#d6c65a;--c7:#b6bcc4}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",
Roboto,"Helvetica Neue",sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:clamp(1.6rem,4.5vw,2.3rem);line-height:1.2;margin:0 0 8px;letter-spacing:-.01em}
h2{font-size:1.25rem;margin:44px 0 6px}
p{margin:8px 0;max-width:70ch}
.lead{font-size:1.1rem;margin-bottom:18px}
.dim,figcaption,dt{color:var(--dim)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:18px 0;font-size:.95rem}
dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:10px;margin:14px 0}
table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:10px 8px 2px;color:var(--dim)}
th,td{padding:7px 8px;text-align:right;white-space:nowrap;border-top:1px solid var(--line)}
thead th{border-top:0;color:var(--dim);font-weight:600;vertical-align:bottom}
th:first-child,td:first-child{text-align:left}
tbody th{font-weight:650}
tr.floor *{color:var(--dim)}
figure{margin:14px 0;padding:14px 14px 8px;background:var(--card);border:1px solid var(--line);border-radius:10px}
figcaption{font-size:.92rem;padding:4px 2px 6px;max-width:75ch}
svg{display:block;width:100%;height:auto;max-width:820px;margin:0 auto}
svg text{fill:var(--dim);font-size:13px;font-family:inherit}
svg text.a{font-size:13px}
svg text.l{fill:var(--ink);font-weight:600}
.grid{stroke:var(--line)}.axis{stroke:var(--dim)}.rule{stroke:var(--c4);stroke-dasharray:6 5}
path.dashed{stroke-dasharray:7 5}
path{fill:none;stroke-width:2.2;stroke-linejoin:round}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}
.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}
.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}
@media (max-width:560px){main{padding:22px 14px 48px}th,td{padding:6px 9px}figure{padding:8px 4px}
svg text,svg text.a{font-size:18px}}
@media print{figure,.wide{break-inside:avoid}}
)css";

}  // namespace ringkeep::eval
