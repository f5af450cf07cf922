import { type ComponentProps, type ReactElement, useEffect, useMemo, useRef, useState } from 'react'
import { lazily } from '../lazily.ts'
import styles from './Code.module.css'
import { CopyButton } from './CopyButton.tsx'

export const colours = lazily(() => import('../colours.ts'))

/** Units of a block that get colours; what follows is plain, so that a huge block costs no more. */
const COLOURED = 30_000
/** How much longer the colours of a growing block rest than they took. */
const REST = 20

/** A block of code in Markdown. */
export function Preformatted({ children }: ComponentProps<'pre'>) {
  const { className, children: inside } = (children as ReactElement<ComponentProps<'code'>>)?.props ?? {}
  return <Code code={typeof inside === 'string' ? inside : ''} named={/language-(\S+)/.exec(className ?? '')?.[1] ?? ''} />
}

/** Code, with colours if the language that it names is known. */
export function Code({ code, named }: { code: string; named: string }) {
  const language = /^(?:text|txt|plain|plaintext)?$/i.test(named) ? undefined : named
  return (
    <div className={styles.code} dir="ltr">
      <div className={styles.bar}>
        <span>{named}</span>
        <CopyButton text={code.replace(/\n$/, '')} label="Copy the code" />
      </div>
      <pre tabIndex={0} dir={language === undefined ? 'auto' : 'ltr'}>
        <Words code={code} language={language} />
      </pre>
    </div>
  )
}

function Words({ code, language }: { code: string; language: string | undefined }) {
  const loaded = colours.use(language !== undefined)
  const took = useRef(0)
  const whole = code.length > COLOURED ? code.slice(0, code.lastIndexOf('\n', COLOURED) + 1) : code
  const head = useResting(whole, took)
  const html = useMemo(() => {
    const began = performance.now()
    const made = language === undefined ? null : (loaded?.coloured(head, language) ?? null)
    took.current = performance.now() - began
    return made
  }, [loaded, head, language])
  if (html === null) return <code>{code}</code>
  return (
    <code>
      <span dangerouslySetInnerHTML={{ __html: html }} />
      {code.slice(head.length)}
    </code>
  )
}

/** The beginning of a growing text, renewed after a rest that is longer the longer the last work on it took. */
function useResting(text: string, took: { readonly current: number }): string {
  const [kept, setKept] = useState(text)
  const at = useRef(0)
  useEffect(() => {
    if (text === kept) return
    const rest = at.current + REST * took.current - performance.now()
    const timer = setTimeout(() => {
      at.current = performance.now()
      setKept(text)
    }, rest)
    return () => clearTimeout(timer)
  }, [text, kept, took])
  return text.startsWith(kept) ? kept : text
}
