import { useMe } from '../access.ts'
import { type Section, type SettingsPanel, usePanels } from '../panels.ts'
import { AgentSettings } from './AgentSettings.tsx'
import { BaseSettings } from './BaseSettings.tsx'
import { KeySettings } from './KeySettings.tsx'
import { Panel } from './Panel.tsx'
import { PeopleSettings } from './PeopleSettings.tsx'
import { ProjectSettings } from './ProjectSettings.tsx'
import styles from './Settings.module.css'
import { SystemPromptSettings } from './SystemPromptSettings.tsx'

const sections: { name: Section; label: string }[] = [
  { name: 'agents', label: 'Agents' },
  { name: 'projects', label: 'Projects' },
  { name: 'system', label: 'System prompt' },
  { name: 'bases', label: 'Knowledge' },
  { name: 'people', label: 'People' },
  { name: 'keys', label: 'You' },
]

/** Agents, projects, the system prompt, knowledge bases, for admins who else there is, and who one is here. */
export function Settings({ at }: { at: SettingsPanel }) {
  const panels = usePanels()
  const show = (section: Section, id: string | null) => panels.show({ kind: 'settings', section, id })
  const onOpen = (id: string | null) => show(at.section, id)
  const key = `${at.section}-${at.id}`
  const me = useMe().data
  const keeps = me?.accounts && me.role === 'admin'
  const shown = sections.filter(({ name }) => name !== 'people' || keeps)
  return (
    // A new panel for each form: the focus begins at its top.
    <Panel key={at.id} title="Settings" testId="settings" onClose={panels.close}>
      <div className={styles.body}>
        <nav className={styles.sections} aria-label="Settings">
          {shown.map(({ name, label }) => (
            <button
              key={name}
              type="button"
              aria-current={at.section === name ? 'page' : undefined}
              onClick={() => show(name, null)}
              data-testid={`settings-${name}`}
            >
              {label}
            </button>
          ))}
        </nav>
        {at.section === 'agents' && <AgentSettings key={key} id={at.id} onOpen={onOpen} />}
        {at.section === 'projects' && <ProjectSettings key={key} id={at.id} onOpen={onOpen} />}
        {at.section === 'system' && <SystemPromptSettings />}
        {at.section === 'bases' && <BaseSettings key={key} id={at.id} onOpen={onOpen} />}
        {at.section === 'people' && <PeopleSettings />}
        {at.section === 'keys' && <KeySettings />}
      </div>
    </Panel>
  )
}
