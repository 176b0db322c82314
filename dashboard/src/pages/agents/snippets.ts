import { COMMAND } from '../../base.ts';
/** A call exactly as it would be sent; the playground's snippets are generated from it. */
export interface Call {
  /** URL of the platform. */
  readonly url: string;
  readonly org: string;
  readonly agent: string;
  readonly version: string;
  readonly endpoint: string;
  /** JSON text on one line. */
  readonly input: string;
  /** Names of files, sent as parts named `files[]`. */
  readonly files: readonly string[];
  /** Headers of the call, such as `x-platform-tenant`. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Quotes text for a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

export const LANGUAGES = ['curl', 'JavaScript', 'Python', 'CLI'] as const;
export type Language = (typeof LANGUAGES)[number];

export function snippetOf(language: Language, call: Call): string {
  const { url, org, agent, version, endpoint, input, files, headers } = call;
  const address = [url, ...[org, agent, version, endpoint].map(encodeURIComponent)].join('/');
  const others = Object.entries(headers);
  switch (language) {
    case 'curl': {
      const lines = [
        `curl ${quoted(address)}`,
        '-H "Authorization: Bearer $PLATFORM_API_KEY"',
        ...others.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
        ...(files.length > 0
          ? [...files.map((name) => `-F ${quoted(`files[]=@${name}`)}`), `-F ${quoted(`metadata=${input}`)}`]
          : ["-H 'Content-Type: application/json'", `-d ${quoted(input)}`]),
      ];
      return lines.join(' \\\n  ');
    }
    case 'JavaScript': {
      const all = [
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code for others.
        '    authorization: `Bearer ${process.env.PLATFORM_API_KEY}`,',
        ...(files.length > 0 ? [] : ["    'content-type': 'application/json',"]),
        ...others.map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},`),
      ];
      return [
        ...(files.length > 0
          ? [
              "import { readFile } from 'node:fs/promises';",
              '',
              'const form = new FormData();',
              ...files.map(
                (name) =>
                  `form.append('files[]', new Blob([await readFile(${JSON.stringify(name)})]), ${JSON.stringify(name)});`,
              ),
              `form.append('metadata', ${JSON.stringify(input)});`,
            ]
          : []),
        `const response = await fetch(${JSON.stringify(address)}, {`,
        "  method: 'POST',",
        '  headers: {',
        ...all,
        '  },',
        files.length > 0 ? '  body: form,' : `  body: JSON.stringify(${input}),`,
        '});',
        'console.log(await response.json());',
      ].join('\n');
    }
    case 'Python': {
      const all = [
        '        "Authorization": f"Bearer {os.environ[\'PLATFORM_API_KEY\']}",',
        ...(files.length > 0 ? [] : ['        "Content-Type": "application/json",']),
        ...others.map(([name, value]) => `        ${JSON.stringify(name)}: ${JSON.stringify(value)},`),
      ];
      if (files.length > 0) {
        return [
          'import os',
          'import requests',
          '',
          'response = requests.post(',
          `    ${JSON.stringify(address)},`,
          '    headers={',
          ...all,
          '    },',
          `    data={"metadata": ${JSON.stringify(input)}},`,
          `    files=[${files.map((name) => `("files[]", open(${JSON.stringify(name)}, "rb"))`).join(', ')}],`,
          ')',
          'print(response.json())',
        ].join('\n');
      }
      return [
        'import json',
        'import os',
        'import urllib.request',
        '',
        'request = urllib.request.Request(',
        `    ${JSON.stringify(address)},`,
        `    data=${JSON.stringify(input)}.encode(),`,
        '    headers={',
        ...all,
        '    },',
        ')',
        'print(json.load(urllib.request.urlopen(request)))',
      ].join('\n');
    }
    case 'CLI': {
      const options: readonly (readonly [name: string, header: string])[] = [
        ['--tenant', 'x-platform-tenant'],
        ['--skills', 'x-platform-skills'],
        ['--max-hops', 'x-platform-max-hops'],
      ];
      const lines = [
        `${COMMAND} run ${quoted(`${org}/${agent}@${version}`)}`,
        `--data ${quoted(input)}`,
        ...files.map((name) => `--file ${quoted(name)}`),
        ...(endpoint === 'run' ? [] : [`--endpoint ${quoted(endpoint)}`]),
        ...options.flatMap(([name, header]) => (headers[header] ? [`${name} ${quoted(headers[header])}`] : [])),
      ];
      return lines.join(' \\\n  ');
    }
  }
}
