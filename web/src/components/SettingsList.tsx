import type { ReactNode } from 'react'
import { follow } from '../route.ts'
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
  /** The address of the list; that of an item begins with it. */
  path: string
}

/** The things of a section; each opens its form. */
export function SettingsList<Item extends { id: string; name: string }>(props: Props<Item>) {
  const { items, error, noun, about, gist, path } = props
  return (
    <>
      <p className={form.quiet}>{about}</p>
      {error !== null && error !== undefined && <QueryError error={error} />}
      {!items && !error && <p className={form.quiet}>Loading…</p>}
      {items && items.length > 0 && (
        <ul className={form.list}>
          {items.map((item) => (
            <li key={item.id}>
              <a
                className={form.row}
                href={`${path}/${item.id}`}
                onClick={follow(`${path}/${item.id}`)}
                data-testid={`${noun}-item`}
              >
                <strong dir="auto">{item.name}</strong>
                <span>{gist(item)}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
      <div className={form.actions}>
        <a className={controls.plain} href={`${path}/new`} onClick={follow(`${path}/new`)} data-testid={`${noun}-new`}>
          <PlusIcon />
          New {noun}
        </a>
      </div>
    </>
  )
}
