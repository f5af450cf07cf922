import { useEffect, useRef, useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { ApiError, api, explain, type QueuedMessage } from '../api.ts'
import { giveBack } from '../drafts.ts'
import { refreshQueue, useFlush, useQueue } from '../queries.ts'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { CloseIcon } from './icons.tsx'
import styles from './Queue.module.css'

interface Props {
  conversation: string
  running: boolean
}

/** What waits to be answered, in order: each can be rewritten or taken out. */
export function Queue({ conversation, running }: Props) {
  const client = useQueryClient()
  const waiting = useQueue(conversation).data ?? []
  const flush = useFlush(conversation)
  const [problem, setProblem] = useState<{ message: string; hint: string | null } | null>(null)
  const seconds = useCountdown(running ? null : (waiting.at(-1)?.due_at ?? null))
  useLeft(waiting, () => refreshQueue(client, conversation))
  useEffect(() => setProblem(null), [conversation])
  const change = (work: Promise<unknown>, text?: string) => {
    setProblem(null)
    work
      .catch((error: unknown) => {
        // It was begun meanwhile: what was rewritten is not lost.
        if (text !== undefined && error instanceof ApiError && error.code === 'not_waiting') giveBack(conversation, text)
        setProblem(explain(error))
      })
      .finally(() => refreshQueue(client, conversation))
  }
  if (waiting.length === 0 && !problem) return null
  return (
    <section className={styles.queue} aria-label="Waiting to be answered">
      {problem && <ErrorNote problem={problem} />}
      <ol className={styles.list}>
        {waiting.map((message) => (
          <Chip
            key={message.id}
            message={message}
            onRewrite={(text) => change(api.rewrite(conversation, message.id, text), text)}
            onRemove={() => change(api.unqueue(conversation, message.id))}
          />
        ))}
      </ol>
      {seconds !== null && (
        <p className={styles.due}>
          <span data-testid="countdown">Answered in {seconds} s, together with what you add.</span>
          <button type="button" className={controls.link} onClick={flush} data-testid="answer-now">
            Answer now
          </button>
        </p>
      )}
    </section>
  )
}

interface ChipProps {
  message: QueuedMessage
  onRewrite: (text: string) => void
  onRemove: () => void
}

function Chip({ message, onRewrite, onRemove }: ChipProps) {
  const [edited, setEdited] = useState<string | null>(null)
  // A box that goes away may still lose the focus: that saves nothing again.
  const closed = useRef(false)
  const close = (save: boolean) => {
    if (closed.current || edited === null) return
    closed.current = true
    if (save && edited.trim() !== '' && edited !== message.text) onRewrite(edited)
    setEdited(null)
  }
  const open = () => {
    closed.current = false
    setEdited(message.text)
  }
  return (
    <li className={styles.chip} data-testid="queued" data-kind={message.kind}>
      {edited !== null ? (
        <textarea
          className={styles.edit}
          rows={Math.min(6, edited.split('\n').length)}
          value={edited}
          autoFocus
          dir="auto"
          aria-label="Rewrite the message"
          data-testid="queued-edit"
          onChange={(event) => setEdited(event.target.value)}
          onBlur={() => close(true)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return
            if (event.key === 'Enter' && !event.shiftKey) close(true)
            else if (event.key === 'Escape') close(false)
            else return
            event.preventDefault()
          }}
        />
      ) : message.kind === 'command' || message.begins ? (
        <span className={styles.text} dir="auto">
          {message.text}
        </span>
      ) : (
        <button
          type="button"
          className={styles.text}
          dir="auto"
          onClick={open}
          title="Rewrite"
          data-testid="queued-text"
        >
          {message.text}
        </button>
      )}
      {message.file_ids.length > 0 && <span className={styles.files}>+{message.file_ids.length}</span>}
      {!message.begins && (
        <button
          type="button"
          className={controls.icon}
          onClick={onRemove}
          aria-label={`Take out: ${message.text.slice(0, 40)}`}
          title="Take out"
          data-testid="queued-remove"
        >
          <CloseIcon size={14} />
        </button>
      )}
    </li>
  )
}

/** Whole seconds until a moment, null once it has passed. */
function useCountdown(until: string | null): number | null {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    if (until === null) return
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [until])
  const left = until === null ? 0 : Date.parse(until) - now
  return left > 0 ? Math.ceil(left / 1000) : null
}

/** Tell when something has left the queue: its turn has begun, here or in another window. */
function useLeft(waiting: QueuedMessage[], tell: () => void): void {
  const before = useRef<string[]>([])
  const ids = waiting.map((message) => message.id)
  useEffect(() => {
    const left = before.current.some((id) => !ids.includes(id))
    before.current = ids
    if (left) tell()
  })
}
