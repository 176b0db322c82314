import { declaredTypes } from './agent-types.ts';
import { PYTHON_RUNTIME } from './python-runtime.ts';
import { inPython, pythonTypes } from './python-types.ts';
import { identifierOf, take } from './schema-type.ts';
import { lineOf } from './texts.ts';
import { TYPESCRIPT_RUNTIME } from './typescript-runtime.ts';
import { inTypeScript, typeScriptTypes } from './typescript-types.ts';

export const CLIENT_LANGUAGES = ['ts', 'python'] as const;
export type ClientLanguage = (typeof CLIENT_LANGUAGES)[number];

/** Begins every file that `platform client` writes, so that it replaces no other. */
export const CLIENT_MARK = 'Written by `platform client`: run it again instead of editing this.';

export interface CalledAgent {
  /** `org/agent@v2`: the version whose types these are. */
  readonly version: string;
  /** The version that is called: `v2` or `latest`. */
  readonly called: string;
  readonly endpoints: readonly string[];
  readonly input: unknown;
  readonly output: unknown;
  /** Address of the platform without a slash at the end. */
  readonly url: string;
}

/** Words of TypeScript and Python that name nothing, and the globals that the clients use. */
const RESERVED = {
  ts: `abstract any arguments as async await boolean break case catch class const continue debugger declare default delete do
    else enum eval export extends false finally for function get if implements import in instanceof interface is let module
    namespace never new null number of package private protected public require return set static string super switch symbol
    this throw true try type typeof undefined unknown var void while with yield Array AbortSignal AsyncGenerator Error Headers
    JSON Math Object Promise ReadonlyArray Response String TextDecoder clearTimeout fetch globalThis process setTimeout`,
  python: `False None True and as assert async await break class continue def del elif else except finally for from global if
    import in is lambda nonlocal not or pass raise return try while with match case type dataclasses http json os urllib Any
    Dict Generic Iterator List Literal Optional Tuple TypedDict TypeVar Union AgentError Answer Endpoint Exception Job OSError
    PLATFORM_URL Progress ValueError bool dict float int isinstance len list min object str super`,
} as const;

/** The source of a client: one file without dependencies. No text of a schema can become code. */
export function agentClient(agent: CalledAgent, language: ClientLanguage): string {
  const { types, input, output, taken } = declaredTypes(agent);
  for (const word of RESERVED[language].split(/\s+/)) taken.add(word);
  const address = agent.version.split('@')[0]!;
  const note = agent.called === 'latest' ? ', which calls the latest version' : '';
  const head = `Client of ${lineOf(agent.version)}${note}. ${CLIENT_MARK}`;
  const paths = agent.endpoints.map((endpoint) => ({
    endpoint,
    path: `/${[...address.split('/'), agent.called, endpoint].map(encodeURIComponent).join('/')}`,
  }));
  if (language === 'python') {
    const runtime = PYTHON_RUNTIME.replaceAll('URL_TEXT', () => inPython(agent.url));
    const declared = pythonTypes(types, taken);
    const endpoints = paths.map(({ endpoint, path }) => {
      const name = take(nameIn('python', endpoint), taken);
      return `${name}: Endpoint["${input}", "${output}"] = Endpoint(${inPython(path)})\n`;
    });
    return `# ${head}\n${PYTHON_IMPORTS}\n${declared}\n\n${runtime}\n\n${endpoints.join('')}`;
  }
  const runtime = TYPESCRIPT_RUNTIME.replaceAll('URL_TEXT', () => inTypeScript(agent.url));
  for (const [, name] of runtime.matchAll(/^(?:export )?(?:async )?(?:class|const|function\*?|interface|type) (\w+)/gm))
    taken.add(name!);
  const endpoints = paths.map(({ endpoint, path }) => {
    const name = take(nameIn('ts', endpoint), taken);
    return `/** Calls ${lineOf(address).replaceAll('*/', '')}. */
export const ${name}: Endpoint<${input}, ${output}> = endpointOf(${inTypeScript(path)});
`;
  });
  return `// ${head}\n\n${typeScriptTypes(types, input)}\n${runtime}\n${endpoints.join('\n')}`;
}

const PYTHON_IMPORTS = `from __future__ import annotations

import dataclasses
import http.client
import json
import os
import time as _time
import urllib.error
import urllib.request
from typing import Any, Dict, Generic, Iterator, List, Literal, Optional, Tuple, TypedDict, TypeVar, Union
`;

/** The name of an endpoint in a program: `daily-report` is `dailyReport` or `daily_report`. */
function nameIn(language: ClientLanguage, endpoint: string): string {
  const words = identifierOf(endpoint);
  const name =
    language === 'python'
      ? (endpoint.match(/[A-Za-z0-9]+/g) ?? []).join('_').toLowerCase()
      : words.charAt(0).toLowerCase() + words.slice(1);
  if (name === '') return 'call';
  return /^\d/.test(name) ? `call${language === 'python' ? '_' : ''}${name}` : name;
}
