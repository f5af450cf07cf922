import { type ClipboardEvent, type KeyboardEvent, useEffect, useId, useLayoutEffect, useRef } from 'react'
import { attach, detach, forgetProblem, obstacle, useDraft, write } from '../drafts.ts'
import styles from './Composer.module.css'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { DraftChip } from './FileChip.tsx'
import { AttachIcon, SendIcon, StopIcon } from './icons.tsx'

interface Props {
  conversation: string | null
  limit: number | undefined
  running: boolean
  stopping: boolean
  onSubmit: () => Promise<void>
  onStop: () => void
}

/** Where the message is written. What cannot be sent now stays in it, with the reason beside the button. */
export function Composer({ conversation, limit, running, stopping, onSubmit, onStop }: Props) {
  const draft = useDraft(conversation)
  const text = useRef<HTMLTextAreaElement>(null)
  const files = useRef<HTMLInputElement>(null)
  const hint = useId()
  useGrowing(text, draft.text)
  useFocusOnStart(text)

  const reason = running ? null : obstacle(draft)
  const submit = () => {
    if (!running && reason === null) void onSubmit()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    submit()
  }
  const onPaste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return
    // Office programs put a picture of the text beside it: then the text is meant.
    if (event.clipboardData.types.includes('text/plain')) return
    event.preventDefault()
    attach(conversation, event.clipboardData.files, limit)
  }

  return (
    <form
      className={styles.composer}
      data-running={running}
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      {draft.problem && (
        <ErrorNote problem={draft.problem}>
          <button type="button" className={controls.link} onClick={() => forgetProblem(conversation)}>
            Dismiss
          </button>
        </ErrorNote>
      )}
      {draft.files.length > 0 && (
        <ul className={styles.files} aria-label="Attached files">
          {draft.files.map((file) => (
            <DraftChip key={file.local} file={file} onRemove={() => detach(conversation, file.local)} />
          ))}
        </ul>
      )}
      <textarea
        ref={text}
        className={styles.text}
        rows={1}
        value={draft.text}
        onChange={(event) => write(conversation, event.target.value)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
        readOnly={draft.sending}
        placeholder="Write a message"
        aria-label="Message"
        aria-describedby={hint}
        data-testid="composer"
      />
      <div className={styles.row}>
        <input
          ref={files}
          type="file"
          multiple
          hidden
          data-testid="attach-input"
          onChange={(event) => {
            attach(conversation, event.target.files ?? [], limit)
            event.target.value = ''
          }}
        />
        <button
          type="button"
          className={controls.icon}
          onClick={() => files.current?.click()}
          disabled={draft.sending}
          aria-label="Attach files"
          title="Attach files"
          data-testid="attach"
        >
          <AttachIcon size={18} />
        </button>
        <p id={hint} className={styles.hint} data-testid="composer-hint">
          {stopping ? 'Stopping…' : running ? 'Answering. Escape stops it.' : (reason ?? 'Enter sends, Shift+Enter starts a new line.')}
        </p>
        {running ? (
          <button type="button" className={styles.stop} onClick={onStop} disabled={stopping} data-testid="stop">
            <StopIcon size={14} />
            Stop
          </button>
        ) : (
          <button
            type="submit"
            className={styles.send}
            aria-disabled={reason !== null}
            aria-label="Send"
            title={reason ?? 'Send'}
            data-testid="send"
          >
            <SendIcon size={18} />
          </button>
        )}
      </div>
    </form>
  )
}

/** As high as its text, up to the limit of the style sheet. */
function useGrowing(text: React.RefObject<HTMLTextAreaElement | null>, value: string): void {
  useLayoutEffect(() => {
    const element = text.current
    if (!element) return
    element.style.height = 'auto'
    element.style.height = `${element.scrollHeight}px`
  }, [text, value])
}

/** Ready to type, unless a finger would make the keyboard jump up. */
function useFocusOnStart(text: React.RefObject<HTMLTextAreaElement | null>): void {
  useEffect(() => {
    if (matchMedia('(pointer: fine)').matches) text.current?.focus({ preventScroll: true })
  }, [text])
}
