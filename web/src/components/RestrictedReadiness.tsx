import type { KnowledgeBase, Readiness, ToldText } from '../objects.ts'
import { exact } from '../format.ts'
import { adviceFor, cutText, useReadiness } from '../restricted.ts'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import styles from './Restricted.module.css'

/** What the owner of a base should know before somebody gets restricted access, and what to do about it. */
export function RestrictedReadiness({ base }: { base: KnowledgeBase }) {
  const { data, error } = useReadiness(base.id)
  if (error) return <QueryError error={error} />
  if (!data) return <p className={form.quiet}>Looking at the documents…</p>
  return <ReadinessShown readiness={data} visible={base.visible} />
}

export function ReadinessShown({ readiness, visible }: { readiness: Readiness; visible: boolean }) {
  const { documents, languages, unknown_language: unknown, told, headings, terms } = readiness
  const telling = told.filter((one) => one.cuts.length > 0)
  const read = Object.entries(languages).map(([code, count]) => `${exact(count)} in ${languageName(code)}`)
  const nothing = readiness.word_lists && readiness.second_model && telling.length === 0 && unknown.length === 0
  return (
    <div className={styles.part} data-testid="restricted-readiness">
      <Missing readiness={readiness} />
      {nothing && documents > 0 && <p className={styles.good}>Nothing is missing. Preview some questions before you share it.</p>}
      <p className={form.hint}>
        {[documents === 1 ? '1 document' : `${exact(documents)} documents`, ...read].join(' · ')}
        {terms.length > 0 && ` · ${exact(terms.length)}${terms.length >= 1000 ? ' or more' : ''} ${terms.length === 1 ? 'name' : 'names'} found`}
      </p>
      {unknown.length > 0 && (
        <div className={styles.block}>
          <h2 className={styles.head}>In no language that the guard knows</h2>
          <p className={form.hint}>Answers leave these documents out. Translate them, or move them to a base of their own.</p>
          <p>{unknown.join(', ')}</p>
        </div>
      )}
      {telling.length > 0 && (
        <div className={styles.block}>
          <h2 className={styles.head}>What you say of the base tells something of its documents</h2>
          <ul>
            {telling.map((one) => (
              <Telling key={`${one.field} ${one.text}`} one={one} />
            ))}
          </ul>
          {visible && <p className={styles.warning}>Members without any access see name and description as you wrote them, because the base is visible.</p>}
        </div>
      )}
      {headings.length > 0 && (
        <details className={styles.passage} data-testid="telling-headings">
          <summary>
            {headings.length === 1 ? '1 title or heading holds' : `${exact(headings.length)} titles and headings hold`} names or figures
          </summary>
          <p className={form.hint}>
            No reader gets a title or a heading. Look for code names here that are ordinary words, such as “Falcon”, and add them under
            “Names”: then they are kept out of the passages too.
          </p>
          <ul className={styles.sentences}>
            {headings.map((one) => (
              <li key={`${one.document} ${one.heading}`}>
                {one.heading} → {one.masked}
                <span className={form.hint}> {one.document}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
      <Bounds readiness={readiness} />
    </div>
  )
}

/** What the server lacks: without word lists nothing can be shared, without a second model nothing is answered. */
export function Missing({ readiness: { word_lists, second_model } }: { readiness: Readiness }) {
  if (!word_lists)
    return (
      <p className={styles.warning} role="alert" data-testid="restricted-missing">
        Restricted access can’t be granted: the word lists of the guard are not installed on this server. Ask its admin to run pip install
        'lamella[restricted]'.
      </p>
    )
  if (!second_model)
    return (
      <p className={styles.warning} role="alert" data-testid="restricted-missing">
        The server has no second model: each question of a restricted reader is refused. Ask its admin to set LAMELLA_RESTRICTED_MODEL.
      </p>
    )
  return null
}

/** The warnings that stand next to a grant of restricted access, before it is made. */
export function GrantWarnings({ readiness }: { readiness: Readiness }) {
  const telling = readiness.told.filter((one) => one.cuts.length > 0).length
  const open = telling + readiness.unknown_language.length
  return (
    <>
      <Missing readiness={readiness} />
      {readiness.word_lists && open > 0 && (
        <p className={form.hint}>Not everything is ready for restricted readers. See “Restricted access”, “Before sharing”.</p>
      )}
    </>
  )
}

function Telling({ one }: { one: ToldText }) {
  return (
    <li data-testid="restricted-telling">
      <p dir="auto">
        <strong>{fieldName(one.field)}:</strong> {one.text}
      </p>
      {one.told !== '' && one.field !== 'name' && one.field !== 'keyword' && (
        <p className={form.hint} dir="auto">
          Readers see: {one.told}
        </p>
      )}
      <p className={form.hint}>
        Found: {cutText(one.cuts)}. {adviceFor(one)}
      </p>
    </li>
  )
}

/** The bounds over time, as the server keeps them. */
function Bounds({ readiness: { answers_per_day: all, short_answers_per_day: short } }: { readiness: Readiness }) {
  const day = all === 0 ? 'as many answers a day as they ask for' : `at most ${exact(all)} answers in 24 hours`
  const few = short === 0 ? '' : `, ${exact(short)} of them short, such as “yes”`
  return (
    <p className={form.hint} data-testid="restricted-bounds">
      A reader gets {day}
      {few}. Over all answers a reader gets at most five content words, or 60 %, of one sentence.
    </p>
  )
}

const fields: Record<string, string> = { name: 'Name', description: 'Description', hint: 'Hint', keyword: 'Keyword' }

const fieldName = (field: string) => fields[field] ?? field

/** `de` is German; a code that the browser does not know stays. */
export function languageName(code: string): string {
  return new Intl.DisplayNames(['en'], { type: 'language', fallback: 'code' }).of(code) ?? code
}
