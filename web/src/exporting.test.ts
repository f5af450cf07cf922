import { expect, it } from 'vitest'
import { asMarkdown, fileName } from './exporting.ts'

const turn = {
  text: 'How often?',
  sent_at: '2026-11-27T10:00:00Z',
  documents: [],
  model: 'claude-opus-5',
  answer: 'Every **400** hours.',
  status: 'finished' as const,
}
const file = (title: string) => ({ document: 1, file_id: 'file_1', title })

it('writes messages and answers under headings, as they are', () => {
  const cut = { ...turn, text: '', documents: [file('manual.pdf'), file('plan.txt')], answer: '', status: 'stopped' as const }
  expect(asMarkdown('Of pumps', [turn, cut], () => 'ten')).toBe(
    '# Of pumps\n\n## You, ten\n\nHow often?\n\n## claude-opus-5\n\nEvery **400** hours.\n\n' +
      '## You, ten\n\nFiles: manual.pdf, plan.txt\n\n## claude-opus-5\n\n*This answer: stopped.*\n',
  )
})

it('names files so that every system takes them', () => {
  expect(fileName('a/b: "c"\n?', 'md')).toBe('a b c.md')
  expect(fileName('../..', 'json')).toBe('chat.json')
  expect(fileName('', 'md')).toBe('chat.md')
  expect(fileName('مرحبا 世界', 'md')).toBe('مرحبا 世界.md')
  expect(fileName('🙂'.repeat(100), 'md')).toBe(`${'🙂'.repeat(80)}.md`)
})
