import type { KnowledgeBase } from '../objects.ts'
import { useEffect, useRef } from 'react'
import { useBases } from '../access.ts'
import { chooseBases, useDraft } from '../drafts.ts'
import { useBind, useBound } from '../knowledge.ts'
import choice from './ChoiceLine.module.css'
import { QueryError } from './ErrorNote.tsx'
import styles from './KnowledgePick.module.css'

/** The bases that a conversation searches; those of its agent are searched beside them. */
export function KnowledgePick({ conversation }: { conversation: string | null }) {
  const bases = useBases()
  const bound = useBound(conversation === null ? null : { kind: 'conversations', id: conversation })
  const bind = useBind()
  const { bases: drafted } = useDraft(null)
  const chosen = conversation === null ? drafted : ((bind.isPending ? bind.variables.bases : bound.data) ?? [])
  const set = (ids: readonly string[]) => {
    if (conversation === null) chooseBases(ids)
    else bind.mutate({ subject: { kind: 'conversations', id: conversation }, bases: ids })
  }
  const details = useClosing()
  if (!bases.data?.length && chosen.length === 0) return null
  const names = chosen.map((id) => bases.data?.find((one) => one.id === id)?.name ?? 'removed')
  return (
    <details ref={details} className={`${choice.pick} ${styles.pick}`} data-testid="choose-knowledge">
      <summary title={names.join(', ') || undefined}>
        Knowledge <strong>{names.length === 0 ? 'none' : names.length === 1 ? names[0] : names.length}</strong>
      </summary>
      <div className={styles.list}>
        {bind.error && <QueryError error={bind.error} />}
        <BaseChecks bases={bases.data ?? []} chosen={chosen} onChange={set} />
      </div>
    </details>
  )
}

interface ChecksProps {
  bases: readonly KnowledgeBase[]
  chosen: readonly string[]
  onChange: (ids: readonly string[]) => void
}

/** A box for each base; one that is gone can be let go of. */
export function BaseChecks({ bases, chosen, onChange }: ChecksProps) {
  const gone = chosen.filter((id) => !bases.some((one) => one.id === id))
  const rows = [...bases.map(({ id, name, level }) => ({ id, name, level })), ...gone.map((id) => ({ id, name: 'removed', level: 'none' }))]
  return (
    <ul className={styles.checks}>
      {rows.map(({ id, name, level }) => (
        <li key={id}>
          <label>
            <input
              type="checkbox"
              checked={chosen.includes(id)}
              onChange={(event) => onChange(event.target.checked ? [...chosen, id] : chosen.filter((one) => one !== id))}
            />
            <span>
              {name}
              {level !== 'full' && <small>{level === 'restricted' ? 'restricted' : 'no access'}</small>}
            </span>
          </label>
        </li>
      ))}
    </ul>
  )
}

/** Closes an open list when something else is clicked, or by Escape. */
function useClosing() {
  const details = useRef<HTMLDetailsElement>(null)
  useEffect(() => {
    const close = () => details.current?.removeAttribute('open')
    const onPointer = (event: PointerEvent) => {
      if (!details.current?.contains(event.target as Node)) close()
    }
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || !details.current?.open) return
      event.preventDefault()
      close()
      details.current.querySelector('summary')?.focus()
    }
    addEventListener('pointerdown', onPointer)
    addEventListener('keydown', onKey, { capture: true })
    return () => {
      removeEventListener('pointerdown', onPointer)
      removeEventListener('keydown', onKey, { capture: true })
    }
  }, [])
  return details
}
