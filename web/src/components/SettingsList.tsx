import type { ReactNode } from 'react'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import { PlusIcon } from './icons.tsx'

interface Props<Item> {
  items: Item[] | undefined
  error: unknown
  /** What one of them is called, and what it is for. */
  noun: string
  about: string
  gist: (item: Item) => ReactNode
  onOpen: (id: string) => void
}

/** The things of a section; each opens its form. */
export function SettingsList<Item extends { id: string; name: string }>(props: Props<Item>) {
  const { items, error, noun, about, gist, onOpen } = props
  return (
    <>
      <p className={form.quiet}>{about}</p>
      {error !== null && error !== undefined && <QueryError error={error} />}
      {!items && !error && <p className={form.quiet}>Loading…</p>}
      {items && items.length > 0 && (
        <ul className={form.list}>
          {items.map((item) => (
            <li key={item.id}>
              <button type="button" className={form.row} onClick={() => onOpen(item.id)} data-testid={`${noun}-item`}>
                <strong dir="auto">{item.name}</strong>
                <span>{gist(item)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      <div className={form.actions}>
        <button type="button" className={controls.plain} onClick={() => onOpen('new')} data-testid={`${noun}-new`}>
          <PlusIcon />
          New {noun}
        </button>
      </div>
    </>
  )
}
