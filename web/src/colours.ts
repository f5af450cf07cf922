/** Colours for code: a part of the page that is loaded with the first code block that names a language. */

import hljs from 'highlight.js/lib/common'
import clojure from 'highlight.js/lib/languages/clojure'
import cmake from 'highlight.js/lib/languages/cmake'
import dart from 'highlight.js/lib/languages/dart'
import dockerfile from 'highlight.js/lib/languages/dockerfile'
import elixir from 'highlight.js/lib/languages/elixir'
import erlang from 'highlight.js/lib/languages/erlang'
import fsharp from 'highlight.js/lib/languages/fsharp'
import groovy from 'highlight.js/lib/languages/groovy'
import haskell from 'highlight.js/lib/languages/haskell'
import http from 'highlight.js/lib/languages/http'
import julia from 'highlight.js/lib/languages/julia'
import latex from 'highlight.js/lib/languages/latex'
import lisp from 'highlight.js/lib/languages/lisp'
import matlab from 'highlight.js/lib/languages/matlab'
import nginx from 'highlight.js/lib/languages/nginx'
import nix from 'highlight.js/lib/languages/nix'
import ocaml from 'highlight.js/lib/languages/ocaml'
import powershell from 'highlight.js/lib/languages/powershell'
import properties from 'highlight.js/lib/languages/properties'
import protobuf from 'highlight.js/lib/languages/protobuf'
import scala from 'highlight.js/lib/languages/scala'
import verilog from 'highlight.js/lib/languages/verilog'
import vim from 'highlight.js/lib/languages/vim'
import x86asm from 'highlight.js/lib/languages/x86asm'

const more = {
  clojure, cmake, dart, dockerfile, elixir, erlang, fsharp, groovy, haskell, http, julia, latex, lisp, matlab, nginx, nix,
  ocaml, powershell, properties, protobuf, scala, verilog, vim, x86asm,
}
for (const [name, language] of Object.entries(more)) hljs.registerLanguage(name, language)
hljs.registerAliases(['hcl', 'terraform', 'toml'], { languageName: 'ini' })
hljs.registerAliases(['vue', 'svelte', 'astro'], { languageName: 'xml' })

/** Code as HTML with a class for each kind of word; null for a language that is not known. */
export function coloured(code: string, language: string): string | null {
  if (!hljs.getLanguage(language)) return null
  return hljs.highlight(code, { language, ignoreIllegals: true }).value
}
