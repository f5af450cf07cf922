import type { Agent } from '../objects.ts'
import type { SectionProps } from '../panels.ts'
import { useAgents } from '../resourceQueries.ts'
import { AgentForm } from './AgentForm.tsx'
import { ErrorNote } from './ErrorNote.tsx'
import { SettingsList } from './SettingsList.tsx'

const ABOUT = 'An agent brings a prompt, a reminder, tools, a model and a layout into a conversation.'

export function AgentSettings({ id, onOpen }: SectionProps) {
  const agents = useAgents()
  const agent = agents.data?.find((one) => one.id === id)
  if (id === 'new') return <AgentForm agent={null} onDone={() => onOpen(null)} />
  if (agent) return <AgentForm agent={agent} onDone={() => onOpen(null)} />
  return (
    <>
      {id !== null && agents.isSuccess && <ErrorNote problem={{ message: 'This agent was removed.' }} />}
      <SettingsList items={agents.data} error={agents.error} noun="agent" about={ABOUT} gist={gist} onOpen={onOpen} />
    </>
  )
}

function gist({ prompt, layout, model, replaces_system }: Agent): string {
  const parts = [model, layout && `layout ${layout}`, replaces_system && 'in place of the system prompt', prompt]
  return parts.filter(Boolean).join(' · ')
}
