import { type KeyboardEvent, useEffect, useId, useLayoutEffect, useRef, useState } from 'react'
import type { SearchHit } from '../api.ts'
import { find } from '../finding.ts'
import { useSearch, useTitles } from '../queries.ts'
import { go } from '../route.ts'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import { HitText, keyOf, saidOf } from './Hits.tsx'
import { CloseIcon, SearchIcon } from './icons.tsx'
import styles from './SearchDialog.module.css'

const ABOUT = 'Your messages, the answers, and tool results.'

/** Milliseconds without a key until what was typed is looked for. */
const PAUSE = 250

/** Searches all conversations: arrow keys choose a passage, Enter or a click goes to it, Escape closes. */
export function SearchDialog({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const list = useId()
  const [typed, setTyped] = useState('')
  const words = usePaused(typed.trim())
  const found = useSearch(undefined, words)
  const hits = (words !== '' && found.data?.data) || []
  const [chosen, setChosen] = useState({ hits, at: 0 })
  const at = chosen.hits === found.data?.data ? chosen.at : 0
  // Closed while it still is on the page: then the browser gives the focus back.
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    return () => element?.close()
  }, [])
  useEffect(() => {
    document.getElementById(`${list}-${at}`)?.scrollIntoView({ block: 'nearest' })
  }, [list, at])

  const open = (hit: SearchHit) => {
    onClose()
    go(hit.conversation_id)
    find(hit)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    // Nothing behind the dialog hears its keys: Escape stops no answer.
    event.stopPropagation()
    if (event.nativeEvent.isComposing) return
    const hit = hits[at]
    if (event.key === 'Escape') onClose()
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : hits.length - 1
      if (hit) setChosen({ hits, at: (at + step) % hits.length })
    } else if (event.key === 'Enter' && event.target instanceof HTMLInputElement) {
      if (hit && !found.isPlaceholderData && words === typed.trim()) open(hit)
    } else return
    event.preventDefault()
  }
  return (
    <dialog
      ref={dialog}
      className={styles.dialog}
      aria-label="Search all conversations"
      data-testid="search"
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
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
          placeholder="Search all conversations"
          aria-label="Search all conversations"
          aria-autocomplete="list"
          aria-expanded={hits.length > 0}
          aria-controls={list}
          aria-activedescendant={hits.length > 0 ? `${list}-${at}` : undefined}
          data-testid="search-words"
        />
        <button type="button" className={controls.icon} onClick={onClose} aria-label="Close search">
          <CloseIcon />
        </button>
      </div>
      {found.error && words !== '' && (
        <div className={styles.said}>
          <QueryError error={found.error} />
        </div>
      )}
      <Results id={list} hits={hits} at={at} onOpen={open} />
      <p className={styles.said} role="status" data-testid="search-status">
        {words !== '' && found.isFetching ? 'Searching…' : words === '' || !found.data || found.error ? ABOUT : saidOf(found.data)}
      </p>
    </dialog>
  )
}

interface ResultsProps {
  id: string
  hits: SearchHit[]
  at: number
  onOpen: (hit: SearchHit) => void
}

function Results({ id, hits, at, onOpen }: ResultsProps) {
  const conversations = [...new Set(hits.map((hit) => hit.conversation_id))]
  const titles = useTitles(conversations)
  return (
    <ul id={id} className={styles.list} role="listbox" aria-label="Passages" hidden={hits.length === 0}>
      {hits.map((hit, index) => (
        <li
          key={keyOf(hit)}
          id={`${id}-${index}`}
          role="option"
          aria-selected={index === at}
          className={styles.hit}
          onClick={() => onOpen(hit)}
          data-testid="search-hit"
        >
          <HitText hit={hit} where={titles[conversations.indexOf(hit.conversation_id)] || 'Untitled'} />
        </li>
      ))}
    </ul>
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
