// A section that has moved to another page: an old link ends at a page that links to the new place.
function follow() {
  const section = location.hash.slice(1);
  if (!section || document.getElementById(section)) return;
  for (const link of document.querySelectorAll(".md-content a[href*='#']")) {
    const moved = new URL(link.href);
    const name = moved.hash.slice(1);
    if (moved.pathname === location.pathname) continue;
    // Also the fields and methods of what has moved.
    if (section === name || section.startsWith(`${name}.`)) {
      moved.hash = section;
      location.replace(moved);
      return;
    }
  }
}
follow();
addEventListener("hashchange", follow);
