import { type ClipboardEvent, type KeyboardEvent, useEffect, useId, useLayoutEffect, useRef, useState } from 'react'
import type { CommandKind } from '../api.ts'
import { completed, completions } from '../commands.ts'
import { attach, detach, forgetProblem, obstacle, useDraft, write } from '../drafts.ts'
import { usePanels } from '../panels.ts'
import { type Preferences, sends, usePreferences } from '../preferences.ts'
import { useCommands, useFlush, useQueue } from '../queries.ts'
import styles from './Composer.module.css'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { DraftChip } from './FileChip.tsx'
import { AttachIcon, EyeIcon, SendIcon, StopIcon } from './icons.tsx'

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
  const listbox = useId()
  const panels = usePanels()
  const { send } = usePreferences()
  useGrowing(text, draft.text)
  useFocusOnStart(text)

  const reason = obstacle(draft)
  const queue = useQueue(conversation)
  const flush = useFlush(conversation)
  const submit = () => {
    if (draft.text.trim() === '' && draft.files.length === 0 && queue.data?.length) flush()
    else if (reason === null) void onSubmit()
  }
  const offered = useOffered(draft.text)
  const take = (command: CommandKind) => {
    write(conversation, completed(command))
    text.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (offered.onKey(event, take)) return
    if (event.nativeEvent.isComposing) return
    if (event.key === 'ArrowUp' && draft.text === '') {
      // The last message has a pencil, unless it can't be edited now.
      const pencils = document.querySelectorAll<HTMLElement>('[data-testid=message-edit]:not(:disabled)')
      pencils.item(pencils.length - 1)?.click()
    } else if (sends(event, send)) submit()
    else return
    event.preventDefault()
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
      {offered.commands.length > 0 && (
        <ul className={styles.commands} role="listbox" aria-label="Commands" id={listbox} data-testid="commands">
          {offered.commands.map((command, index) => (
            <li
              key={command.name}
              id={`${listbox}-${index}`}
              role="option"
              aria-selected={index === offered.at}
              className={styles.command}
              onMouseDown={(event) => {
                event.preventDefault()
                take(command)
              }}
            >
              <span className={styles.usage}>{command.usage}</span> {command.summary}
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={text}
        aria-controls={offered.commands.length > 0 ? listbox : undefined}
        aria-activedescendant={offered.commands.length > 0 ? `${listbox}-${offered.at}` : undefined}
        className={styles.text}
        rows={1}
        value={draft.text}
        onChange={(event) => write(conversation, event.target.value)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
        readOnly={draft.sending}
        dir="auto"
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
        <button
          type="button"
          className={controls.icon}
          onClick={() => panels.show({ kind: 'preview' })}
          aria-label="Preview what would be sent"
          title="Preview what would be sent"
          data-testid="preview-open"
        >
          <EyeIcon size={18} />
        </button>
        <p id={hint} className={styles.hint} data-testid="composer-hint">
          {stopping ? 'Stopping…' : (reason ?? hintOf(send, running))}
        </p>
        {running && (
          <button type="button" className={styles.stop} onClick={onStop} disabled={stopping} data-testid="stop">
            <StopIcon size={14} />
            Stop
          </button>
        )}
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
      </div>
    </form>
  )
}

/** What the keys do now. */
function hintOf(send: Preferences['send'], running: boolean): string {
  const key = send === 'enter' ? 'Enter' : 'Ctrl+Enter'
  if (running) return `Answering. Escape stops it, ${key} queues your next message.`
  return `${key} sends, ${send === 'enter' ? 'Shift+Enter' : 'Enter'} starts a new line.`
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

/** The commands that what is typed may become: arrows move, Tab takes one, Enter too unless it is typed whole. */
function useOffered(text: string) {
  const kinds = useCommands()
  const [moved, setMoved] = useState({ text, at: 0 })
  const [dismissed, setDismissed] = useState<string | null>(null)
  const commands = dismissed === text ? [] : completions(text, kinds.data ?? [])
  const at = moved.text === text ? Math.min(moved.at, Math.max(0, commands.length - 1)) : 0
  const onKey = (event: KeyboardEvent, take: (command: CommandKind) => void): boolean => {
    const chosen = commands[at]
    if (!chosen || event.nativeEvent.isComposing) return false
    const whole = text.slice(1).toLowerCase() === chosen.name
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : commands.length - 1
      setMoved({ text, at: (at + step) % commands.length })
    } else if ((event.key === 'Tab' && !event.shiftKey) || (event.key === 'Enter' && !event.shiftKey && !whole)) take(chosen)
    else if (event.key === 'Escape') setDismissed(text)
    else return false
    event.preventDefault()
    return true
  }
  return { commands, at, onKey }
}
