import { useState } from 'react'
import controls from './controls.module.css'
import styles from './Notice.module.css'

const FOLDED = 'notice-folded'

/** What the server wants everybody to know. It can be folded to one line, not away, and begins so on narrow screens. */
export function Notice({ text, testId = 'notice' }: { text: string; testId?: string }) {
  const [whole, setWhole] = useState(() => sessionStorage.getItem(FOLDED) !== text && !matchMedia('(max-width: 800px)').matches)
  const toggle = () => {
    if (whole) sessionStorage.setItem(FOLDED, text)
    else sessionStorage.removeItem(FOLDED)
    setWhole(!whole)
  }
  const long = text.length > 90
  return (
    <div className={styles.notice} role="note" data-testid={testId}>
      <p data-whole={whole}>{text}</p>
      {long && (
        <button type="button" className={controls.link} onClick={toggle} aria-expanded={whole}>
          {whole ? 'Less' : 'More'}
        </button>
      )}
    </div>
  )
}
