/** What admins keep: users with their keys, groups, and the audit of who was let in where. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { accessKeys } from './access.ts'
import { body, everything, items, json } from './api.ts'
import type { AuditEntry, AuditKind, Group, InvitedUser, IssuedKey, Key, ListOf, User } from './objects.ts'
import { required } from './resources.ts'

export const adminKeys = {
  users: ['admin', 'users'] as const,
  groups: ['admin', 'groups'] as const,
  keys: (user: string) => ['admin', 'users', user, 'keys'] as const,
  audit: (kind: AuditKind) => ['admin', 'audit', kind] as const,
}

/** Entries of the audit that are shown: the newest. */
const SHOWN = 100

export const useUsers = () => useQuery({ queryKey: adminKeys.users, queryFn: () => everything<User>('/users') })

export const useGroups = () => useQuery({ queryKey: adminKeys.groups, queryFn: () => everything<Group>('/groups') })

export const useUserKeys = (user: string) =>
  useQuery({ queryKey: adminKeys.keys(user), queryFn: () => everything<Key>(`/users/${user}/keys`) })

export const useAudit = (kind: AuditKind) =>
  useQuery({
    queryKey: adminKeys.audit(kind),
    queryFn: async () => items(await json<ListOf<AuditEntry>>(`/audit/${kind}?limit=${SHOWN}`)),
    staleTime: 0,
  })

export const useAddUser = () =>
  useAdmin((value: { name: string; role: User['role'] }) =>
    json<InvitedUser>('/users', body('POST', required(value, 'name', 'The user has no name.', 'Say who it is.'))),
  )

export const useChangeUser = () =>
  useAdmin(({ id, ...change }: { id: string; role?: User['role']; disabled?: boolean }) =>
    json<User>(`/users/${id}`, body('PATCH', change)),
  )

export const useIssueKey = (user: string) =>
  useAdmin((value: { name: string }) => json<IssuedKey>(`/users/${user}/keys`, body('POST', value)))

export const useRevokeKeyOf = (user: string) =>
  useAdmin((id: string) => json<Key>(`/users/${user}/keys/${id}`, { method: 'DELETE' }))

export const useAddGroup = () =>
  useAdmin((value: { name: string }) =>
    json<Group>('/groups', body('POST', required(value, 'name', 'The group has no name.', 'Give it one.'))),
  )

export const useRemoveGroup = () => useAdmin((id: string) => json<null>(`/groups/${id}`, { method: 'DELETE' }))

/** Put a user into a group (`in`), or take them out. */
export const useMember = () =>
  useAdmin((change: { group: string; user: string; in: boolean }) =>
    json<Group>(`/groups/${change.group}/members/${change.user}`, { method: change.in ? 'PUT' : 'DELETE' }),
  )

/** What happened, in words. */
export function told(kind: AuditKind, entry: AuditEntry): string {
  const base = entry.on_name ? `a base of ${entry.on_name} (${entry.on_id})` : entry.on_id
  switch (kind) {
    case 'grants':
      return `${entry.subject_name}: ${entry.from ?? 'no grant'} → ${entry.to ?? 'no grant'} on ${base}`
    case 'members':
      return `${entry.subject_name} ${entry.to ? 'put into' : 'taken out of'} ${entry.on_name}`
    case 'restricted-uses':
      return `asked ${base}: ${entry.to?.replaceAll('_', ' ')}`
  }
}

/** A change of what admins keep: done when all of it is here again. */
function useAdmin<Value, Answer>(change: (value: Value) => Promise<Answer>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: () =>
      Promise.all([client.invalidateQueries({ queryKey: ['admin'] }), client.invalidateQueries({ queryKey: accessKeys.names })]),
  })
}
