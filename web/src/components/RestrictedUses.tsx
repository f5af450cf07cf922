import type { DisclosedPassage, KnowledgeBase, PassageReader, RestrictedReader, RestrictedUse } from '../objects.ts'
import { useState } from 'react'
import { exact, fullMoment, percent } from '../format.ts'
import { alertText, DAYS, documentsOf, reasonText, useDisclosed, useDocument, useReaders, useUses } from '../restricted.ts'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import { Marked } from './Marked.tsx'
import styles from './Restricted.module.css'

/** For the owner of a base: who asked what, what they got, and how much of each passage that is. */
export function RestrictedUses({ base }: { base: KnowledgeBase }) {
  const [document, setDocument] = useState<string | null>(null)
  if (document !== null) return <Disclosed base={base.id} document={document} onBack={() => setDocument(null)} />
  return (
    <div className={styles.part} data-testid="restricted-uses-list">
      <Readers base={base.id} />
      <Uses base={base.id} onDocument={setDocument} />
    </div>
  )
}

function Readers({ base }: { base: string }) {
  const readers = useReaders(base)
  if (readers.error) return <QueryError error={readers.error} />
  if (!readers.data?.length) return null
  return (
    <div className={styles.block}>
      <h2 className={styles.head}>Readers of the last {DAYS} days</h2>
      <ul>
        {readers.data.map((one) => (
          <Reader key={one.id} one={one} />
        ))}
      </ul>
    </div>
  )
}

function Reader({ one }: { one: RestrictedReader }) {
  const answers = one.answers === 1 ? '1 answer' : `${exact(one.answers)} answers`
  return (
    <li data-testid="restricted-reader">
      <strong>{one.name}</strong> · {answers}, {exact(one.short)} short · last {fullMoment(one.last_at)}
      {one.alerts.length > 0 && <p className={styles.refused}>Look at this: {one.alerts.map(alertText).join('; ')}.</p>}
    </li>
  )
}

function Uses({ base, onDocument }: { base: string; onDocument: (id: string) => void }) {
  const uses = useUses(base)
  const rows = uses.data?.pages.flatMap((page) => page.data) ?? []
  if (uses.error) return <QueryError error={uses.error} />
  if (!uses.isSuccess) return <p className={form.quiet}>Loading…</p>
  if (rows.length === 0) return <p className={form.quiet}>Nobody with restricted access has asked yet.</p>
  return (
    <div className={styles.block}>
      <h2 className={styles.head}>Questions</h2>
      <ul className={styles.uses}>
        {rows.map((use) => (
          <Use key={use.id} base={base} use={use} onDocument={onDocument} />
        ))}
      </ul>
      {uses.hasNextPage && (
        <div className={form.actions}>
          <button type="button" className={controls.plain} disabled={uses.isFetchingNextPage} onClick={() => void uses.fetchNextPage()}>
            Earlier
          </button>
        </div>
      )}
    </div>
  )
}

function Use({ base, use, onDocument }: { base: string; use: RestrictedUse; onDocument: (id: string) => void }) {
  return (
    <li data-testid="restricted-use">
      <p>
        <strong>{use.name}</strong> <time dateTime={use.at}>{fullMoment(use.at)}</time>
      </p>
      <p className={styles.text} dir="auto">
        {use.question}
      </p>
      {use.released ? (
        <p className={styles.told} dir="auto">
          {use.released}
        </p>
      ) : (
        <p className={form.hint}>Refused: {reasonText(use.reason)}.</p>
      )}
      {use.alerts.length > 0 && <p className={styles.refused}>{use.alerts.map(alertText).join('; ')}</p>}
      {use.released !== '' && (
        <div className={form.actions}>
          {documentsOf(use).map((id) => (
            <DocumentLink key={id} base={base} id={id} onOpen={() => onDocument(id)} />
          ))}
        </div>
      )}
    </li>
  )
}

function DocumentLink({ base, id, onOpen }: { base: string; id: string; onOpen: () => void }) {
  const { data, error } = useDocument(base, id)
  if (error) return <span className={form.hint}>of a document that was removed</span>
  return (
    <button type="button" className={controls.link} onClick={onOpen} data-testid="disclosed-open">
      Show next to {data?.name ?? 'its document'}
    </button>
  )
}

/** What went out of one document: each passage next to what readers got of it. */
function Disclosed({ base, document, onBack }: { base: string; document: string; onBack: () => void }) {
  const named = useDocument(base, document)
  const { data, error } = useDisclosed(base, document)
  return (
    <div className={styles.part} data-testid="disclosed">
      <div className={form.actions}>
        <button type="button" className={controls.plain} onClick={onBack} autoFocus>
          Back
        </button>
      </div>
      <h2 className={styles.head}>What went out of {named.data?.name ?? 'the document'}</h2>
      <p className={form.hint}>Marked words of a passage stand in answers that the reader got.</p>
      {error && <QueryError error={error} />}
      {data?.data.length === 0 && <p className={form.quiet}>Nothing of its passages went out.</p>}
      {data?.data.map((passage) => <Passage key={passage.id} passage={passage} />)}
      {data?.has_more && <p className={form.hint}>These are the newest answers; earlier ones are not shown.</p>}
    </div>
  )
}

function Passage({ passage }: { passage: DisclosedPassage }) {
  return passage.readers.map((reader) => (
    <article key={reader.user_id} className={styles.sides} data-testid="disclosed-passage">
      <div>
        <h5 className={styles.head}>{passage.headings.join(' › ') || 'Passage'}</h5>
        {passage.text ? (
          <p className={styles.text} dir="auto">
            <Marked text={passage.text} marks={marksOf(reader)} />
          </p>
        ) : (
          <p className={form.hint}>It is of an earlier version of the document.</p>
        )}
      </div>
      <div>
        <h5 className={styles.head}>{reader.name}</h5>
        <p className={form.hint}>{shareOf(reader)}</p>
        {reader.disclosures.map((one) => (
          <div key={one.use_id} className={styles.block}>
            <p className={form.hint}>
              <time dateTime={one.at}>{fullMoment(one.at)}</time> on “<bdi>{one.question}</bdi>”
            </p>
            {one.sentences.map((sentence, at) => (
              <p key={at} className={styles.told} dir="auto">
                {sentence}
              </p>
            ))}
          </div>
        ))}
      </div>
    </article>
  ))
}

export const marksOf = (reader: PassageReader) =>
  reader.covered.flatMap(([start, end]) => (start === undefined || end === undefined ? [] : [{ start, end }]))

/** `12 of 60 words, 50 % of one sentence at most`. */
export const shareOf = ({ words, out_of: all, most }: PassageReader) =>
  `${exact(words)} of ${exact(all)} words, ${percent(most)} of one sentence at most`
