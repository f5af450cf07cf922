import { expect, it } from 'vitest'
import { sends, valid } from './preferences.ts'

it('keeps what it knows of what was stored, and the first choice for the rest', () => {
  const usual = { theme: 'system', text: 'normal', density: 'comfortable', send: 'enter' }
  expect(valid({})).toEqual(usual)
  expect(valid({ theme: 'dark', text: 'huge', more: 1 })).toEqual({ ...usual, theme: 'dark' })
  for (const odd of [null, 'dark', 7, ['dark']]) expect(valid(odd)).toEqual(usual)
})

it('sends by Enter, or by Ctrl or Command with it', () => {
  const key = { key: 'Enter', shiftKey: false, ctrlKey: false, metaKey: false }
  expect(sends(key, 'enter')).toBe(true)
  expect(sends({ ...key, shiftKey: true }, 'enter')).toBe(false)
  expect(sends(key, 'modifier')).toBe(false)
  expect(sends({ ...key, ctrlKey: true }, 'modifier')).toBe(true)
  expect(sends({ ...key, metaKey: true }, 'modifier')).toBe(true)
  expect(sends({ ...key, key: 'a' }, 'enter')).toBe(false)
})
