/** A chat as a file of its reader. */

import { api, json, type Conversation } from './api.ts'
import type { ShownTurn } from './turn.ts'

type Said = Pick<ShownTurn, 'text' | 'sent_at' | 'documents' | 'model' | 'answer' | 'status'>

/** The path that is shown, as Markdown: each message and the answer that goes on, with the time and the model. */
export function asMarkdown(title: string, turns: readonly Said[], when: (iso: string) => string): string {
  const parts = turns.flatMap(({ text, sent_at, documents, model, answer, status }) => [
    `## You, ${when(sent_at)}`,
    text,
    documents.length > 0 ? `Files: ${documents.map((one) => one.title).join(', ')}` : '',
    `## ${model}`,
    answer ?? '',
    status === 'finished' ? '' : `*This answer: ${status}.*`,
  ])
  return [`# ${title}`, ...parts].filter(Boolean).join('\n\n') + '\n'
}

/** A name that every file system takes. */
export function fileName(title: string, ending: string): string {
  const safe = title.replace(/[\\/:*?"<>|\p{Cc}]+/gu, ' ').replace(/\s+/g, ' ').trim().replace(/^[. ]+/, '')
  return `${[...safe].slice(0, 80).join('').trim() || 'chat'}.${ending}`
}

/** Saves the chat: the path that is shown as Markdown, or all of it with its windows as a trace in JSON. */
export async function saveChat({ id, title }: Conversation, format: 'md' | 'json', when: (iso: string) => string): Promise<void> {
  const name = title || 'Untitled'
  const text =
    format === 'md'
      ? asMarkdown(name, await allTurns(id), when)
      : JSON.stringify(await json<unknown>(`/conversations/${id}/export`), null, 1)
  const address = URL.createObjectURL(new Blob([text], { type: format === 'md' ? 'text/markdown' : 'application/json' }))
  const link = document.createElement('a')
  link.href = address
  link.download = fileName(name, format)
  link.click()
  URL.revokeObjectURL(address)
}

/** All turns of the path that is shown, the oldest first. */
async function allTurns(id: string): Promise<ShownTurn[]> {
  const found: ShownTurn[] = []
  let after: string | undefined
  do {
    const page = await api.turns(id, after)
    found.push(...page.data)
    after = page.has_more && page.last_id !== null ? page.last_id : undefined
  } while (after !== undefined)
  return found.reverse()
}
