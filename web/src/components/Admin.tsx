import { useMe } from '../access.ts'
import { follow } from '../route.ts'
import { Audit } from './Audit.tsx'
import { GroupList } from './GroupList.tsx'
import { Page } from './Page.tsx'
import { SystemPromptSettings } from './SystemPromptSettings.tsx'
import styles from './Settings.module.css'
import { UserList } from './UserList.tsx'

const parts = [
  { name: 'system-prompt', label: 'System prompt', Content: SystemPromptSettings },
  { name: 'users', label: 'Users', Content: UserList, ofAccounts: true },
  { name: 'groups', label: 'Groups', Content: GroupList, ofAccounts: true },
  { name: 'audit', label: 'Audit', Content: Audit, ofAccounts: true },
]

/** What an admin keeps. Without accounts there is nobody to list. */
export default function Admin({ part }: { part: string | null }) {
  const me = useMe().data
  const shown = parts.filter(({ ofAccounts }) => !ofAccounts || (me?.accounts && me.role === 'admin'))
  const current = part === null ? shown[0] : shown.find((one) => one.name === part)
  return (
    <Page title="Admin" testId="admin">
      <nav className={styles.sections} aria-label="Admin">
        {shown.map(({ name, label }) => (
          <a
            key={name}
            href={`/admin/${name}`}
            aria-current={current?.name === name ? 'page' : undefined}
            onClick={follow(`/admin/${name}`)}
            data-testid={`admin-${name}`}
          >
            {label}
          </a>
        ))}
      </nav>
      {current ? <current.Content /> : me && <p>This part is not yours to see, or is not there.</p>}
    </Page>
  )
}
