import { describe, expect, it } from 'vitest'
import { directionOf } from './directions.ts'

describe('the direction of a text', () => {
  it('is that of its first letter', () => {
    expect(directionOf('1. «مرحبا» world')).toBe('rtl')
    expect(directionOf('(3) שלום world')).toBe('rtl')
    expect(directionOf('ߒߞߏ and 𞤀𞤣')).toBe('rtl')
    expect(directionOf('– Hello مرحبا')).toBe('ltr')
    expect(directionOf('世界 مرحبا')).toBe('ltr')
    expect(directionOf('12 % …')).toBe('auto')
  })
})
