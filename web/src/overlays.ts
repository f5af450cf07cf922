/** Keys that an open list, menu or dialog keeps for itself. */

const OVER = '[data-popup-open], [role=alertdialog], [role=dialog][data-open]'

const kept = new WeakSet<Event>()

/** Whether a list, a menu or a dialog was open when the key was pressed: then it alone acts on it. */
export const isKept = (event: Event) => kept.has(event)

/** Called before the page renders: it has to see a key before what it closes is gone. */
export function watchOverlays(): void {
  addEventListener('keydown', (event) => document.querySelector(OVER) && kept.add(event), { capture: true })
}
