import type { Agent } from '../objects.ts'
import { useAgents } from '../resourceQueries.ts'
import { goTo } from '../route.ts'
import { AgentForm } from './AgentForm.tsx'
import { ErrorNote } from './ErrorNote.tsx'
import { Page } from './Page.tsx'
import { SettingsList } from './SettingsList.tsx'

const ABOUT = 'An agent brings a prompt, a reminder, tools, a model and a layout into a conversation.'

/** The list of agents, or one of them. */
export default function Agents({ id }: { id: string | null }) {
  const agents = useAgents()
  const agent = agents.data?.find((one) => one.id === id)
  const onDone = () => goTo('/agents')
  if (id === 'new' || agent)
    return (
      <Page key={id} title={agent?.name ?? 'New agent'} testId="agent" back={{ path: '/agents', label: 'All agents' }}>
        <AgentForm agent={agent ?? null} onDone={onDone} />
      </Page>
    )
  return (
    <Page title="Agents" testId="agents">
      {id !== null && agents.isSuccess && !agents.isFetching && <ErrorNote problem={{ message: 'This agent was removed.' }} />}
      <SettingsList items={agents.data} error={agents.error} noun="agent" about={ABOUT} gist={gist} path="/agents" />
    </Page>
  )
}

function gist({ prompt, layout, model, replaces_system }: Agent): string {
  const parts = [model, layout && `layout ${layout}`, replaces_system && 'in place of the system prompt', prompt]
  return parts.filter(Boolean).join(' · ')
}
