import type { CheckedSentence, KnowledgeBase, RestrictedPreview as Preview, RestrictedPreviews } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { exact, percent } from '../format.ts'
import { cutText, MOST_QUESTIONS, questionsIn, reasonText, together, usePreviews } from '../restricted.ts'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import { Field } from './Field.tsx'
import form from './form.module.css'
import styles from './Restricted.module.css'

/** For the owner of a base: what restricted readers would be told, next to what was cut and what it was made of. */
export function RestrictedPreview({ base }: { base: KnowledgeBase }) {
  const [text, setText] = useState('')
  const [found, setFound] = useState<RestrictedPreviews | null>(null)
  const previews = usePreviews(base.id)
  const questions = questionsIn(text)
  const tooMany = questions.length > MOST_QUESTIONS
  const ask = (queries: string[], before: RestrictedPreviews | null) => {
    setFound(before)
    previews.mutate(queries, { onSuccess: (more) => setFound(together(before, more)) })
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (questions.length > 0 && !tooMany) ask(questions, null)
  }
  return (
    <div className={styles.part} data-testid="restricted-preview-part">
      <form className={form.form} onSubmit={submit}>
        <Field label="Questions" hint="One on each line, as a restricted reader may ask them. Readers see nothing of this preview.">
          {(control) => (
            <textarea
              {...control}
              dir="auto"
              rows={4}
              placeholder={'What is it about?\nWhen may a tenant leave?'}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
        <div className={form.actions}>
          <button type="submit" className={controls.strong} disabled={questions.length === 0 || tooMany || previews.isPending} data-testid="restricted-try">
            {previews.isPending ? 'Asking…' : 'Preview'}
          </button>
          {tooMany && <p className={form.error}>At most {MOST_QUESTIONS} questions at a time.</p>}
          {previews.isPending && <p className={form.hint}>The second model is asked one question after the other.</p>}
        </div>
      </form>
      {previews.error && <QueryError error={previews.error} />}
      {found && (
        <div role="status">
          <p className={form.quiet} data-testid="restricted-shares">
            {sharesOf(found)}
          </p>
        </div>
      )}
      {found?.data.map((one) => (
        <Shown key={one.query} preview={one} />
      ))}
      {found && found.not_asked.length > 0 && (
        <div className={styles.warning} data-testid="restricted-not-asked">
          The time ran out before {found.not_asked.length === 1 ? '1 question was' : `${found.not_asked.length} questions were`} asked.{' '}
          <button type="button" className={controls.link} disabled={previews.isPending} onClick={() => ask(found.not_asked, found)}>
            Ask the rest
          </button>
        </div>
      )}
    </div>
  )
}

/** `1 of 4 questions refused (25 %), 3 of 12 sentences cut (25 %)`. */
export function sharesOf({ data, refused, cut }: RestrictedPreviews): string {
  const said = data.flatMap((one) => one.sentences).filter((one) => one.said !== '').length
  const parts = [`${exact(refused * data.length)} of ${data.length} ${data.length === 1 ? 'question' : 'questions'} refused (${percent(refused)})`]
  if (said > 0) parts.push(`${exact(cut * said)} of ${exact(said)} ${said === 1 ? 'sentence' : 'sentences'} cut (${percent(cut)})`)
  return parts.join(', ')
}

function Shown({ preview }: { preview: Preview }) {
  const { query, safe, sentences, passages, confidence, model } = preview
  const cut = sentences.filter((one) => one.said !== '' && one.released === '')
  const sure = confidence === null ? '' : `, ${percent(confidence)} sure`
  return (
    <article className={styles.question} data-testid="restricted-answer">
      <h2 dir="auto">{query}</h2>
      {safe.summary ? (
        <p className={styles.text} dir="auto" data-testid="restricted-safe">
          {safe.summary}
        </p>
      ) : (
        <p className={styles.refused} data-testid="restricted-safe">
          Refused: {reasonText(safe.reason)}.
        </p>
      )}
      {cut.length > 0 && <Cut sentences={cut} refused={safe.summary === ''} />}
      {passages.length > 0 && (
        <details className={styles.passage}>
          <summary>{passages.length === 1 ? 'The passage' : `The ${passages.length} passages`} that it was made of; the second model saw them masked</summary>
          {passages.map((passage) => (
            <div key={passage.id} className={styles.block} data-testid="restricted-passage">
              <h5 className={styles.head}>{[passage.title, ...passage.headings].join(' › ')}</h5>
              <p className={styles.text} dir="auto">
                {passage.text}
              </p>
            </div>
          ))}
        </details>
      )}
      {model !== null && (
        <p className={form.hint}>
          {model}
          {sure}
        </p>
      )}
    </article>
  )
}

function Cut({ sentences, refused }: { sentences: CheckedSentence[]; refused: boolean }) {
  return (
    <>
      <h5 className={styles.head}>Cut out</h5>
      <ul className={styles.sentences}>
        {sentences.map((one, at) => (
          <li key={at} data-testid="restricted-cut">
            <s className={styles.cut} dir="auto">
              {one.said}
            </s>
            <small>
              {one.cuts.length > 0 ? cutText(one.cuts) : refused ? 'too little was left of the answer' : 'left out'}
              {one.words.length > 0 && `: ${one.words.join(', ')}`}
            </small>
          </li>
        ))}
      </ul>
    </>
  )
}
