import type { KnowledgeBase } from '../objects.ts'
import { useSearchers } from '../knowledge.ts'
import { usePanels } from '../panels.ts'
import { go } from '../route.ts'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'

/** One's own agents and conversations that search a base. */
export function BaseSearchers({ base }: { base: KnowledgeBase }) {
  const panels = usePanels()
  const { data, error } = useSearchers(base.id)
  const agents = data?.filter((one) => one.object === 'agent') ?? []
  const conversations = data?.filter((one) => one.object === 'conversation') ?? []
  return (
    <section aria-label="Used in" className={form.group} data-testid="searchers">
      {error && <QueryError error={error} />}
      {data?.length === 0 && <p className={form.quiet}>None of your agents and conversations searches it.</p>}
      <ul className={form.list}>
        {agents.map(({ id, name }) => (
          <li key={id}>
            <button type="button" className={form.row} onClick={() => panels.show({ kind: 'settings', section: 'agents', id })}>
              <strong>{name}</strong>
              <span>Agent</span>
            </button>
          </li>
        ))}
        {conversations.map(({ id, name }) => (
          <li key={id}>
            <button type="button" className={form.row} onClick={() => go(id)}>
              <strong>{name || 'Untitled'}</strong>
              <span>Conversation</span>
            </button>
          </li>
        ))}
      </ul>
      <p className={form.hint}>Choose it with “Knowledge” above a message, or in an agent.</p>
    </section>
  )
}
