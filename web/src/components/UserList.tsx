import type { User } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { useMe } from '../access.ts'
import { useAddUser, useChangeUser, useIssueKey, useRevokeKeyOf, useUserKeys, useUsers } from '../admin.ts'
import { problemElsewhere } from '../fields.ts'
import { Choose, type Option } from './Choose.tsx'
import controls from './controls.module.css'
import styles from './Entrance.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { useFirstWrong } from './Field.tsx'
import form from './form.module.css'
import { Secret } from './Secret.tsx'
import { TextField } from './TextField.tsx'

/** Every user, with role and keys. */
const ROLES: Option<User['role']>[] = [
  { id: 'member', name: 'member' },
  { id: 'admin', name: 'admin' },
]

export function UserList() {
  const users = useUsers()
  const change = useChangeUser()
  const [open, setOpen] = useState<string | null>(null)
  return (
    <>
      {(users.error ?? change.error) && <QueryError error={users.error ?? change.error} />}
      <ul className={form.list}>
        {users.data?.map((one) => (
          <li key={one.id} data-testid="user">
            <Row one={one} busy={change.isPending} onChange={(value) => change.mutate({ id: one.id, ...value })}>
              <button
                type="button"
                className={controls.plain}
                aria-expanded={open === one.id}
                onClick={() => setOpen(open === one.id ? null : one.id)}
                aria-label={`Keys of ${one.name}`}
              >
                Keys
              </button>
            </Row>
            {open === one.id && <Keys user={one} />}
          </li>
        ))}
      </ul>
      <NewUser />
    </>
  )
}

interface RowProps {
  one: User
  busy: boolean
  onChange: (change: { role?: User['role']; disabled?: boolean }) => void
  children: React.ReactNode
}

function Row({ one, busy, onChange, children }: RowProps) {
  const me = useMe()
  return (
    <div className={styles.member}>
      <span>
        {one.name}
        <small>{[one.id === me.data?.id && 'you', one.disabled && 'disabled: no key opens anything'].filter(Boolean).join(' · ')}</small>
      </span>
      <span>
        <Choose
          aria-label={`Role of ${one.name}`}
          value={one.role}
          options={ROLES}
          disabled={busy}
          onChange={(role) => role && onChange({ role })}
        />
      </span>
      {children}
      {one.id !== me.data?.id && (
        <button
          type="button"
          className={one.disabled ? controls.plain : controls.danger}
          disabled={busy}
          onClick={() => onChange({ disabled: !one.disabled })}
          aria-label={`${one.disabled ? 'Enable' : 'Disable'} ${one.name}`}
        >
          {one.disabled ? 'Enable' : 'Disable'}
        </button>
      )}
    </div>
  )
}

/** The keys of a user; one that is issued here is handed over by the admin. */
function Keys({ user }: { user: User }) {
  const keys = useUserKeys(user.id)
  const issue = useIssueKey(user.id)
  const revoke = useRevokeKeyOf(user.id)
  const error = keys.error ?? issue.error ?? revoke.error
  return (
    <div data-testid="user-keys">
      {error && <QueryError error={error} />}
      <ul className={form.list}>
        {keys.data?.map((key) => (
          <li key={key.id} className={styles.member}>
            <span>
              {key.name}
              <small>{`${key.prefix}… · ${key.scopes.join(', ')}`}</small>
            </span>
            {key.revoked_at ? (
              'revoked'
            ) : (
              <button type="button" className={controls.danger} disabled={revoke.isPending} onClick={() => revoke.mutate(key.id)}>
                Revoke
              </button>
            )}
          </li>
        ))}
      </ul>
      {issue.data && <Secret secret={issue.data.secret ?? ''} />}
      <button
        type="button"
        className={controls.plain}
        disabled={issue.isPending}
        onClick={() => issue.mutate({ name: 'issued by an admin' })}
        data-testid="issue-key"
      >
        Issue a key
      </button>
    </div>
  )
}

function NewUser() {
  const [name, setName] = useState('')
  const add = useAddUser()
  const element = useFirstWrong(add.error)
  const problem = problemElsewhere(add.error, ['name'])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    add.mutate({ name, role: 'member' }, { onSuccess: () => setName('') })
  }
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate data-testid="new-user">
      {problem && <ErrorNote problem={problem} />}
      {add.data && <Secret secret={add.data.key.secret ?? ''} />}
      <TextField name="name" label="New user" hint="Gets a first key, to be handed over." value={name} error={add.error} onChange={setName} />
      <div className={form.actions}>
        <button type="submit" className={controls.strong} disabled={add.isPending} data-testid="add-user">
          Add the user
        </button>
      </div>
    </form>
  )
}
