import type { KnowledgeBase } from '../objects.ts'
import { useSearchers } from '../knowledge.ts'
import { follow, pathOf } from '../route.ts'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'

/** One's own agents and conversations that search a base. */
export function BaseSearchers({ base }: { base: KnowledgeBase }) {
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
            <a className={form.row} href={`/agents/${id}`} onClick={follow(`/agents/${id}`)}>
              <strong>{name}</strong>
              <span>Agent</span>
            </a>
          </li>
        ))}
        {conversations.map(({ id, name }) => (
          <li key={id}>
            <a className={form.row} href={pathOf(id)} onClick={follow(pathOf(id))}>
              <strong>{name || 'Untitled'}</strong>
              <span>Conversation</span>
            </a>
          </li>
        ))}
      </ul>
      <p className={form.hint}>Choose it with “Knowledge” above a message, or in an agent.</p>
    </section>
  )
}
