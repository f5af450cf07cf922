import { type Conversation, explain } from '../api.ts'
import { type Choice, choiceOf, inForce } from '../choice.ts'
import { choose, useDraft } from '../drafts.ts'
import { useChange, useStatus } from '../queries.ts'
import { useAgents, useLayouts, useProjects, useSystemPrompts } from '../resourceQueries.ts'
import { follow } from '../route.ts'
import styles from './ChoiceLine.module.css'
import { ContextPopover } from './ContextPopover.tsx'
import controls from './controls.module.css'
import { EffortPick, lossOf } from './EffortPick.tsx'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { SlidersIcon } from './icons.tsx'
import { KnowledgePick } from './KnowledgePick.tsx'
import { Pick } from './Pick.tsx'

/** What the next message is sent with; each of it can be changed here. `conversation` is null before the first message. */
export function ChoiceLine({ conversation, started }: { conversation: Conversation | null; started: boolean }) {
  const agents = useAgents()
  const projects = useProjects()
  const layouts = useLayouts()
  const { choice } = useDraft(null)
  const change = useChange()
  const model = useStatus().data?.model ?? null
  if (started && conversation === null) return <div className={styles.line} />

  const known = agents.data ?? []
  const current = conversation ? choiceOf(conversation) : inForce(choice, known, layouts.data ?? [], model)
  const shown: Choice = { ...current, ...(change.isPending ? (change.variables as Partial<Choice>) : {}) }
  const set = (patch: Partial<Choice>) => {
    if (conversation) change.mutate({ id: conversation.id, ...(patch as object) })
    else choose(patch)
  }
  const setAgent = (agent_id: string | null) => {
    const named = known.find((one) => one.id === agent_id)
    // Before the first message what the agent names wins over what was chosen; afterwards the server sees to it.
    const reset = conversation ? {} : { ...(named?.model ? { model: null } : {}), ...(named?.layout ? { layout: null } : {}) }
    set({ agent_id, ...reset })
  }
  const error = agents.error ?? projects.error ?? layouts.error
  return (
    <>
      {change.error && <ErrorNote problem={explain(change.error)} />}
      {error && <QueryError error={error} />}
      <div className={styles.line} role="group" aria-label="What the next message is sent with" data-testid="choices">
        <Pick label="Agent" none="none" name="agent" value={shown.agent_id} options={named(known)} onChange={setAgent} />
        <Pick
          label="Project"
          none="none"
          name="project"
          value={shown.project_id}
          options={named(projects.data ?? [])}
          onChange={(project_id) => set({ project_id })}
        />
        <KnowledgePick conversation={conversation?.id ?? null} />
        <EffortPick conversation={conversation} value={shown.thinking_effort} onChange={(value) => set({ thinking_effort: value })} />
        {conversation && <PromptVersion conversation={conversation} onMove={(version) => change.mutate({ id: conversation.id, system_prompt_version: version })} />}
        <ContextPopover
          choice={shown}
          loss={change.data?.cache_lost ? lossOf(change.data.cache_lost) : null}
          onChange={set}
        />
        {shown.agent_id !== null && (
          <a
            className={`${controls.icon} ${styles.settings}`}
            href={`/agents/${shown.agent_id}`}
            onClick={follow(`/agents/${shown.agent_id}`)}
            aria-label="Open this agent"
            title="Open this agent"
            data-testid="agent-open"
          >
            <SlidersIcon />
          </a>
        )}
      </div>
    </>
  )
}

const named = (things: readonly { id: string; name: string }[]) => things.map(({ id, name }) => ({ id, name }))

/** Says when the conversation began with an older system prompt, and moves it to the newest. */
function PromptVersion({ conversation, onMove }: { conversation: Conversation; onMove: (version: number) => void }) {
  const newest = useSystemPrompts().data?.[0]
  const version = conversation.system_prompt_version
  if (!newest || newest.version === version) return null
  return (
    <span className={styles.version} data-testid="prompt-older">
      System prompt {version}
      <button type="button" className={controls.link} onClick={() => onMove(newest.version)}>
        use {newest.version}
      </button>
    </span>
  )
}
