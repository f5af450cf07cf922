import { useEffect, useMemo, useRef } from 'react'
import { around } from '../citations.ts'
import type { Passage } from '../panels.ts'
import { useFileText } from '../queries.ts'
import { QueryError } from './ErrorNote.tsx'
import { Panel } from './Panel.tsx'
import styles from './PassagePanel.module.css'

/** The text of a file, opened at the cited passage. */
export default function PassagePanel({ passage, onClose }: { passage: Passage; onClose: () => void }) {
  const text = useFileText(passage.fileId)
  return (
    <Panel title={passage.title} detail={detailOf(passage, text.data?.pages ?? null)} testId="passage" onClose={onClose}>
      <div className={styles.body}>
        {text.error && <QueryError error={text.error} />}
        {text.isLoading && <p className={styles.quiet}>Opening the document…</p>}
        {passage.fileId === null && <WithoutText passage={passage} />}
        {text.data && <Pages text={text.data.text} passage={passage} />}
      </div>
    </Panel>
  )
}

function detailOf(passage: Passage, pages: number | null): string {
  const parts = []
  if (passage.document !== null) parts.push(`Document ${passage.document}`)
  if (passage.page !== null) parts.push(pages ? `page ${passage.page} of ${pages}` : `page ${passage.page}`)
  else if (pages) parts.push(pages === 1 ? '1 page' : `${pages} pages`)
  if (passage.document !== null && passage.start === null) parts.push('no single passage found')
  return parts.join(' · ')
}

function WithoutText({ passage }: { passage: Passage }) {
  if (passage.url && /^https?:/i.test(passage.url)) {
    return (
      <a href={passage.url} target="_blank" rel="noopener noreferrer nofollow">
        {passage.url}
      </a>
    )
  }
  return <p className={styles.quiet}>The text of this document is not stored here.</p>
}

interface Sheet {
  number: number
  before: string
  marked: string
  after: string
}

function Pages({ text, passage }: { text: string; passage: Passage }) {
  const mark = useRef<HTMLElement>(null)
  const top = useRef<HTMLDivElement>(null)
  const sheets = useMemo(() => sheetsOf(text, passage.start, passage.end), [text, passage.start, passage.end])
  const first = sheets.findIndex((sheet) => sheet.marked !== '')
  useEffect(() => {
    if (mark.current) mark.current.scrollIntoView({ block: 'center' })
    else if (passage.page !== null) top.current?.children[passage.page - 1]?.scrollIntoView({ block: 'start' })
    else top.current?.scrollIntoView({ block: 'start' })
  }, [sheets, passage.page])

  return (
    <div ref={top}>
      {sheets.map((sheet, index) => (
        <section key={sheet.number} className={styles.sheet}>
          {sheets.length > 1 && <h3 className={styles.page}>Page {sheet.number}</h3>}
          <div className={styles.text} dir="auto">
            {sheet.before}
            {sheet.marked && (
              <mark ref={index === first ? mark : null} data-testid="passage-mark">
                {sheet.marked}
              </mark>
            )}
            {sheet.after}
          </div>
        </section>
      ))}
    </div>
  )
}

/** Pages of a text, each with its share of the passage between code points `start` and `end`. */
export function sheetsOf(text: string, start: number | null, end: number | null): Sheet[] {
  if (start === null || end === null || end <= start) {
    return text.split('\f').map((page, index) => ({ number: index + 1, before: page, marked: '', after: '' }))
  }
  const [before, marked] = around(text, start, end)
  const from = before.length
  const to = from + marked.length
  let at = 0
  return text.split('\f').map((page, index) => {
    const first = Math.min(Math.max(from - at, 0), page.length)
    const last = Math.min(Math.max(to - at, 0), page.length)
    at += page.length + 1
    return {
      number: index + 1,
      before: page.slice(0, first),
      marked: page.slice(first, last),
      after: page.slice(last),
    }
  })
}
