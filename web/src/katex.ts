/** KaTeX with its style and fonts: a part of the page that is loaded with the first formula. */

import katex from 'katex'
import 'katex/dist/katex.min.css'

/** Units of a formula that is typeset; a longer one is shown as it was written. */
const LONGEST = 10_000

/** A formula as HTML for the eye and MathML for screen readers; null if it is not TeX that KaTeX knows. */
export function typeset(tex: string, display: boolean): string | null {
  if (tex.length > LONGEST) return null
  try {
    // Not trusted: no links, no pictures, no style of its own. Sizes and expansions are bounded.
    return katex.renderToString(tex, { displayMode: display, trust: false, strict: 'ignore', maxSize: 40, maxExpand: 1000 })
  } catch {
    return null
  }
}
