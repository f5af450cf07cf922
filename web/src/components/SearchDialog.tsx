import { Dialog } from '@base-ui/react/dialog'
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import type { Conversation, SearchHit } from '../api.ts'
import { find } from '../finding.ts'
import { moment } from '../format.ts'
import { useConversations, useSearch, useTitles } from '../queries.ts'
import { go, goTo, pathOf } from '../route.ts'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import { HitText, keyOf, saidOf } from './Hits.tsx'
import { CloseIcon, SearchIcon } from './icons.tsx'
import styles from './SearchDialog.module.css'

const ABOUT = 'Chats by title and by what was said in them, pages, and commands.'

/** Milliseconds without a key until what was typed is looked for. */
const PAUSE = 250

/** How many chats are offered by their titles. */
const MOST_CHATS = 6

const PAGES = [
  { name: 'New chat', words: 'conversation start', path: '/', keys: 'Ctrl Shift O' },
  { name: 'Projects', words: 'files instructions', path: '/projects' },
  { name: 'Knowledge', words: 'bases documents', path: '/knowledge' },
  { name: 'Agents', words: 'prompts tools', path: '/agents' },
  { name: 'Clients', words: 'programs gateway lines', path: '/clients' },
  { name: 'Settings', words: 'keys preferences theme dark light text size log out', path: '/settings', keys: 'Ctrl ,' },
  { name: 'System prompt', words: 'admin', path: '/admin/system-prompt' },
]

/** One row of the list, and what it does. */
interface Entry {
  key: string
  group: 'Commands' | 'Chats' | 'Passages'
  act: () => void
  content: ReactNode
}

/**
 * Searches all chats and runs commands: arrow keys choose a row, Enter or a click takes it, Escape closes.
 */
export default function SearchDialog({ onClose }: { onClose: () => void }) {
  const list = useId()
  const [typed, setTyped] = useState('')
  const words = usePaused(typed.trim())
  const found = useSearch(undefined, words)
  const entries = useEntries(typed.trim(), (words !== '' && found.data?.data) || [])
  const [chosen, setChosen] = useState({ typed, at: 0 })
  const at = chosen.typed === typed ? Math.min(chosen.at, entries.length - 1) : 0
  useEffect(() => {
    document.getElementById(`${list}-${at}`)?.scrollIntoView({ block: 'nearest' })
  }, [list, at])

  const [open, setOpen] = useState(true)
  const [opener] = useState(() => document.activeElement)
  const taken = useRef(false)
  const take = (entry: Entry) => {
    taken.current = true
    setOpen(false)
    entry.act()
  }
  // Passages of an earlier search are none that were asked for now: Enter waits for those that were.
  const late = typed.trim() !== '' && (found.isFetching || found.isPlaceholderData || words !== typed.trim())
  const [wanted, setWanted] = useState<string | null>(null)
  useEffect(() => {
    if (wanted !== typed || late) return
    setWanted(null)
    if (entries[0]) take(entries[0])
  })
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    const entry = entries[at]
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : entries.length - 1
      if (entry) setChosen({ typed, at: (at + step) % entries.length })
    } else if (event.key === 'Enter' && event.target instanceof HTMLInputElement) {
      if (entry && !(late && entry.group === 'Passages')) take(entry)
      else setWanted(typed)
    } else return
    event.preventDefault()
  }
  return (
    <Dialog.Root open={open} onOpenChange={setOpen} onOpenChangeComplete={(still) => !still && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={styles.backdrop} />
        <Dialog.Popup
          className={styles.dialog}
          aria-label="Search and commands"
          data-testid="search"
          // What was taken has the focus next, not what opened the search.
          finalFocus={() => (taken.current || !(opener instanceof HTMLElement) ? false : opener)}
          onKeyDown={onKeyDown}
        >
          <div className={styles.box}>
            <SearchIcon />
            <input
              type="search"
              role="combobox"
              dir="auto"
              autoFocus
              value={typed}
              maxLength={2000}
              onChange={(event) => setTyped(event.target.value)}
              placeholder="Search chats, or type a command"
              aria-label="Search chats, or type a command"
              aria-autocomplete="list"
              aria-expanded={entries.length > 0}
              aria-controls={list}
              aria-activedescendant={entries.length > 0 ? `${list}-${at}` : undefined}
              data-testid="search-words"
            />
            <Dialog.Close className={controls.icon} aria-label="Close search">
              <CloseIcon />
            </Dialog.Close>
          </div>
          {found.error && words !== '' && (
            <div className={styles.said}>
              <QueryError error={found.error} />
            </div>
          )}
          <Entries id={list} entries={entries} at={at} onTake={take} />
          <p className={styles.said} role="status" data-testid="search-status">
            {statusOf(words, found, entries.length)}
          </p>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

/** How far the search of messages is, in words. */
function statusOf(words: string, { data, error, isFetching }: ReturnType<typeof useSearch>, entries: number): string {
  if (words === '' || error) return ABOUT
  if (isFetching || !data) return 'Searching…'
  return data.data.length === 0 && entries > 0 ? 'No message has these words.' : saidOf(data)
}

/** What fits what was typed: commands and loaded chats at once, passages when the server has found them. */
function useEntries(typed: string, hits: SearchHit[]): Entry[] {
  const loaded = useConversations().data?.pages.flatMap((page) => page.data) ?? []
  const ids = [...new Set(hits.map((hit) => hit.conversation_id))]
  const titles = useTitles(ids)
  const commands = PAGES.filter((one) => fits(`${one.name} ${one.words}`, typed)).map(
    ({ name, path, keys }): Entry => ({
      key: path,
      group: 'Commands',
      act: () => goTo(path),
      content: <Row name={name} detail={keys} />,
    }),
  )
  const chats = loaded
    .filter((one) => fits(one.title, typed))
    .slice(0, MOST_CHATS)
    .map(chatEntry)
  const passages = hits.map(
    (hit): Entry => ({
      key: keyOf(hit),
      group: 'Passages',
      act: () => {
        go(hit.conversation_id)
        find(hit)
      },
      content: <HitText hit={hit} where={titles[ids.indexOf(hit.conversation_id)] || 'Untitled'} />,
    }),
  )
  return typed === '' ? [...commands, ...chats] : [...chats, ...commands, ...passages]
}

const chatEntry = ({ id, title, updated_at }: Conversation): Entry => ({
  key: id,
  group: 'Chats',
  act: () => goTo(pathOf(id)),
  content: <Row name={title || 'Untitled'} detail={moment(updated_at)} />,
})

/** Whether the text has each word that was typed. */
function fits(text: string, typed: string): boolean {
  const there = text.toLocaleLowerCase()
  return typed.toLocaleLowerCase().split(/\s+/).every((word) => there.includes(word))
}

function Row({ name, detail }: { name: string; detail: string | undefined }) {
  return (
    <span className={styles.row}>
      <span dir="auto">{name}</span>
      {detail && <kbd>{detail}</kbd>}
    </span>
  )
}

interface EntriesProps {
  id: string
  entries: Entry[]
  at: number
  onTake: (entry: Entry) => void
}

function Entries({ id, entries, at, onTake }: EntriesProps) {
  const groups = [...new Set(entries.map((one) => one.group))]
  return (
    <div id={id} className={styles.list} role="listbox" aria-label="Results" hidden={entries.length === 0}>
      {groups.map((group) => (
        <div key={group} role="group" aria-labelledby={`${id}-${group}`}>
          <p id={`${id}-${group}`} className={styles.group} role="presentation">
            {group}
          </p>
          {entries.map(
            (entry, index) =>
              entry.group === group && (
                <div
                  key={entry.key}
                  id={`${id}-${index}`}
                  role="option"
                  aria-selected={index === at}
                  className={styles.hit}
                  onClick={() => onTake(entry)}
                  data-testid={group === 'Passages' ? 'search-hit' : 'search-entry'}
                >
                  {entry.content}
                </div>
              ),
          )}
        </div>
      ))}
    </div>
  )
}

/** What was typed, once nothing was for a moment. */
function usePaused(typed: string): string {
  const [paused, setPaused] = useState(typed)
  useEffect(() => {
    const timer = setTimeout(() => setPaused(typed), PAUSE)
    return () => clearTimeout(timer)
  }, [typed])
  return typed === '' ? '' : paused
}
