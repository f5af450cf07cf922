/** Where lists and menus open: a landmark at the end of the document, over everything else. */
export const layers = {
  get current() {
    return document.getElementById('layers')
  },
}
