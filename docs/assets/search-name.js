// The theme gives the dialog of its search no name, which screen readers announce.
document.querySelector('[data-md-component="search"]')?.setAttribute("aria-label", "Search");
