import { useMemo } from 'react'
import { lazily } from '../lazily.ts'
import styles from './Maths.module.css'

export const katex = lazily(() => import('../katex.ts'))

interface Props {
  tex: string
  display: 'inline' | 'block'
  /** With its delimiters. */
  written: string
}

/** A formula; as it was written until it can be typeset, and if it can't be. Always left to right. */
export function Maths({ tex, display, written }: Props) {
  const loaded = katex.use()
  const html = useMemo(() => loaded?.typeset(tex, display === 'block') ?? null, [loaded, tex, display])
  if (html === null) {
    return (
      <code dir="ltr" className={styles.written} data-testid="maths-written">
        {written}
      </code>
    )
  }
  return <span dir="ltr" className={styles[display]} data-testid="maths" dangerouslySetInnerHTML={{ __html: html }} />
}
