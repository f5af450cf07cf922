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
  /** Null once it is done, else why not. */
  const change = async (work: Promise<unknown>): Promise<unknown> => {
    setProblem(null)
    try {
      await work
      return null
    } catch (error) {
      setProblem(explain(error))
      return error
    } finally {
      refreshQueue(client, conversation)
    }
  }
  /** True unless the text has to be written again: of a message that begins it is given back to the composer. */
  const rewrite = async (id: string, text: string): Promise<boolean> => {
    const error = await change(api.rewrite(conversation, id, text))
    const begun = error instanceof ApiError && error.code === 'not_waiting'
    if (begun) giveBack(conversation, text)
    return error === null || begun
  }
  const lose = (text: string) => {
    giveBack(conversation, text)
    setProblem(begunMeanwhile)
  }
  if (waiting.length === 0 && !problem) return null
  return (
    <section className={styles.queue} aria-label="Waiting to be answered">
      {problem && (
        <ErrorNote problem={problem}>
          <button type="button" className={controls.link} onClick={() => setProblem(null)}>
            Dismiss
          </button>
        </ErrorNote>
      )}
      <ol className={styles.list}>
        {waiting.map((message) => (
          <Chip
            key={message.id}
            message={message}
            onRewrite={(text) => rewrite(message.id, text)}
            onLose={lose}
            onRemove={() => void change(api.unqueue(conversation, message.id))}
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

const begunMeanwhile = {
  message: 'The message that you were rewriting is being answered.',
  hint: 'Your text is in the message box.',
}

interface ChipProps {
  message: QueuedMessage
  /** Store the text; false if that was refused and the message still waits. */
  onRewrite: (text: string) => Promise<boolean>
  /** The message waits no more, and this text was being written in its place. */
  onLose: (text: string) => void
  onRemove: () => void
}

function Chip({ message, onRewrite, onLose, onRemove }: ChipProps) {
  const [edited, setEdited] = useState<string | null>(null)
  // What a refusal gave back takes no focus: its writer may be elsewhere by now.
  const [refused, setRefused] = useState(false)
  // A box that goes away may still lose the focus: that saves nothing again.
  const closed = useRef(false)
  const unsaved = useRef<string | null>(null)
  unsaved.current = edited !== null && edited.trim() !== '' && edited !== message.text ? edited : null
  const lose = useRef(onLose)
  lose.current = onLose
  const here = useRef(true)
  useEffect(() => {
    here.current = true
    return () => {
      here.current = false
      closed.current = true
      if (unsaved.current !== null) lose.current(unsaved.current)
    }
  }, [])
  const show = (text: string, again: boolean) => {
    closed.current = false
    setRefused(again)
    setEdited(text)
  }
  const close = (save: boolean) => {
    if (closed.current || edited === null) return
    closed.current = true
    const text = save ? unsaved.current : null
    setEdited(null)
    if (text === null) return
    void onRewrite(text).then((stored) => {
      if (stored) return
      if (here.current) show(text, true)
      else lose.current(text)
    })
  }
  const open = () => show(message.text, false)
  return (
    <li className={styles.chip} data-testid="queued" data-kind={message.kind}>
      {edited !== null ? (
        <textarea
          className={styles.edit}
          rows={Math.min(6, edited.split('\n').length)}
          value={edited}
          autoFocus={!refused}
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
      ) : message.kind === 'command' || message.starting ? (
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
      {!message.starting && (
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
