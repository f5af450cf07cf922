import { afterEach, expect, it, vi } from 'vitest'
import { remember, remembered } from './remembered.ts'

afterEach(() => vi.unstubAllGlobals())

function storage(values: Record<string, string>) {
  const kept = new Map(Object.entries(values))
  vi.stubGlobal('sessionStorage', {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => kept.set(name, value),
    removeItem: (name: string) => kept.delete(name),
  })
  return kept
}

it('keeps a list until it is empty', () => {
  const kept = storage({})
  remember('compare.conv_1', ['a', 'b'])
  expect(remembered('compare.conv_1')).toEqual(['a', 'b'])
  expect(remembered('compare.conv_2')).toEqual([])
  remember('compare.conv_1', [])
  expect(kept.size).toBe(0)
})

it('takes nothing that is no list of words', () => {
  storage({ 'lamella.a': '{', 'lamella.b': '{"x":1}', 'lamella.c': '["x",1,null]' })
  expect(['a', 'b', 'c'].map(remembered)).toEqual([[], [], ['x']])
})

it('does without a store', () => {
  vi.stubGlobal('sessionStorage', undefined)
  remember('a', ['x'])
  expect(remembered('a')).toEqual([])
})
