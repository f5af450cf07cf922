import type { ShownTurn } from '../turn.ts'
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react'
import { type Problem, useBranches } from '../branching.ts'
import { fullMoment, moment } from '../format.ts'
import { sends, usePreferences } from '../preferences.ts'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { BackIcon, ChevronIcon, PencilIcon } from './icons.tsx'
import styles from './TurnItem.module.css'

/** What was asked: its text, to be edited in its place, and the way to what else was asked there. */
export function Question({ turn }: { turn: ShownTurn }) {
  const branches = useBranches()
  const [editing, setEditing] = useState(false)
  const pencil = useRef<HTMLButtonElement>(null)
  const close = () => {
    setEditing(false)
    requestAnimationFrame(() => pencil.current?.focus())
  }
  if (editing) return <Editor turn={turn} onClose={close} />
  const answersCalls = turn.results.length > 0
  return (
    <>
      {turn.results.map((result) => (
        <details key={result.call_id} className={styles.text} data-testid="call-result">
          <summary>
            {result.is_error ? 'Error' : 'Result'} of {result.name}
          </summary>
          <pre tabIndex={0} dir="auto">
            {result.content}
          </pre>
        </details>
      ))}
      {turn.text && (
        <div className={styles.text} dir="auto">
          {turn.text}
        </div>
      )}
      <div className={styles.foot}>
        <time className={styles.time} dateTime={turn.sent_at} title={fullMoment(turn.sent_at)}>
          {moment(turn.sent_at)}
        </time>
        {turn.siblings.length > 1 && <Siblings turn={turn} />}
        <button
          ref={pencil}
          type="button"
          className={`${controls.icon} ${styles.small}`}
          disabled={branches.busy || answersCalls}
          onClick={() => setEditing(true)}
          aria-label="Edit this message"
          title="Edit this message: it becomes a branch, and this one is kept"
          data-testid="message-edit"
        >
          <PencilIcon />
        </button>
      </div>
    </>
  )
}

/** ‹2/3›: the turns that follow the same answer. The buttons keep the focus: what they lead to stands in their place. */
function Siblings({ turn }: { turn: ShownTurn }) {
  const { busy, go } = useBranches()
  const at = turn.siblings.indexOf(turn.id)
  const step = (by: number, label: string, name: string) => {
    const to = turn.siblings[at + by]
    const off = busy || to === undefined
    return (
      <button
        type="button"
        className={`${controls.icon} ${styles.small}`}
        aria-disabled={off}
        onClick={() => {
          if (!off) go(to)
        }}
        aria-label={label}
        title={label}
        data-testid={name}
      >
        {by < 0 ? <BackIcon /> : <ChevronIcon />}
      </button>
    )
  }
  return (
    <span className={styles.siblings} role="group" aria-label="Branches of this message" data-testid="siblings">
      {step(-1, 'Earlier branch', 'sibling-earlier')}
      <span aria-live="polite" data-testid="sibling-place">
        <span className="visually-hidden">Branch </span>
        {at + 1}/{turn.siblings.length}
      </span>
      {step(1, 'Later branch', 'sibling-later')}
    </span>
  )
}

/** The key that sends does so, Escape leaves the message as it was. */
function Editor({ turn, onClose }: { turn: ShownTurn; onClose: () => void }) {
  const branches = useBranches()
  const [text, setText] = useState(turn.text)
  const [problem, setProblem] = useState<Problem | null>(null)
  const area = useRef<HTMLTextAreaElement>(null)
  const preferred = usePreferences().send
  const hint = useId()
  useEffect(() => {
    area.current?.focus()
    area.current?.setSelectionRange(text.length, text.length)
  }, []) // eslint-disable-line react-hooks/exhaustive-deps
  const send = async () => {
    if (branches.busy) return
    if (text.trim() === '') {
      setProblem({ message: 'Write a message first.', hint: null })
      return
    }
    setProblem(null)
    const wrong = await branches.edit(turn, text)
    if (wrong === null) onClose()
    else setProblem(wrong)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === 'Escape') onClose()
    else if (sends(event, preferred)) void send()
    else return
    event.preventDefault()
  }
  return (
    <form
      className={styles.editor}
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      <textarea
        ref={area}
        value={text}
        rows={Math.min(12, text.split('\n').length + 1)}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        dir="auto"
        aria-label="Edit the message"
        aria-describedby={hint}
        data-testid="message-editor"
      />
      {problem && <ErrorNote problem={problem} />}
      <div className={styles.actions}>
        <p id={hint} className={styles.hint}>
          {branches.busy
            ? 'It can be sent when the answer is complete.'
            : 'Sent with the settings below. The original message and its answers stay in another branch.'}
        </p>
        <button type="button" className={controls.plain} onClick={onClose}>
          Cancel
        </button>
        <button type="submit" className={controls.strong} disabled={branches.busy} data-testid="message-edit-send">
          Send
        </button>
      </div>
    </form>
  )
}
