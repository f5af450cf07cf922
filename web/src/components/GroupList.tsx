import type { Group } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { useAddGroup, useGroups, useMember, useRemoveGroup, useUsers } from '../admin.ts'
import { problemElsewhere } from '../fields.ts'
import { Confirm } from './Confirm.tsx'
import { Choose } from './Choose.tsx'
import controls from './controls.module.css'
import styles from './Entrance.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { useFirstWrong } from './Field.tsx'
import form from './form.module.css'
import { TextField } from './TextField.tsx'

/** Every group with its members. */
export function GroupList() {
  const groups = useGroups()
  const member = useMember()
  const remove = useRemoveGroup()
  const [leaving, setLeaving] = useState<Group | null>(null)
  const error = groups.error ?? member.error ?? remove.error
  return (
    <>
      {error && <QueryError error={error} />}
      <ul className={form.list}>
        {groups.data?.map((one) => (
          <li key={one.id} data-testid="group">
            <div className={styles.member}>
              <span>{one.name}</span>
              <button type="button" className={controls.danger} onClick={() => setLeaving(one)} aria-label={`Delete ${one.name}`}>
                Delete
              </button>
            </div>
            {one.members.map((user) => (
              <div key={user.id} className={styles.member} data-testid="member">
                <span>
                  <small>{user.name}</small>
                </span>
                <button
                  type="button"
                  className={controls.plain}
                  disabled={member.isPending}
                  onClick={() => member.mutate({ group: one.id, user: user.id, in: false })}
                  aria-label={`Take ${user.name} out of ${one.name}`}
                >
                  Remove
                </button>
              </div>
            ))}
            <Add group={one} busy={member.isPending} onAdd={(user) => member.mutate({ group: one.id, user, in: true })} />
          </li>
        ))}
      </ul>
      {leaving && (
        <Confirm
          question={`Delete “${leaving.name}”?`}
          detail="Its members stay, and lose what only it was granted."
          action="Delete"
          onConfirm={() => {
            remove.mutate(leaving.id)
            setLeaving(null)
          }}
          onCancel={() => setLeaving(null)}
        />
      )}
      <NewGroup />
    </>
  )
}

function Add({ group, busy, onAdd }: { group: Group; busy: boolean; onAdd: (user: string) => void }) {
  const users = useUsers()
  const inside = new Set(group.members.map((one) => one.id))
  const open = users.data?.filter((one) => !inside.has(one.id)) ?? []
  if (open.length === 0) return null
  return (
    <Choose
      aria-label={`Add to ${group.name}`}
      value={null}
      none="Add a user…"
      options={open}
      disabled={busy}
      onChange={(user) => user && onAdd(user)}
    />
  )
}

function NewGroup() {
  const [name, setName] = useState('')
  const add = useAddGroup()
  const element = useFirstWrong(add.error)
  const problem = problemElsewhere(add.error, ['name'])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    add.mutate({ name }, { onSuccess: () => setName('') })
  }
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate>
      {problem && <ErrorNote problem={problem} />}
      <TextField name="name" label="New group" value={name} error={add.error} onChange={setName} />
      <div className={form.actions}>
        <button type="submit" className={controls.strong} disabled={add.isPending} data-testid="add-group">
          Add the group
        </button>
      </div>
    </form>
  )
}
