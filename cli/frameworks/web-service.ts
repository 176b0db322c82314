import type { Adaptation, Entry, Project } from './framework.ts';
import { adapterHead, adapterOf, importOf } from './node-program.ts';
import { startOf, withoutBuild } from './package-scripts.ts';
import { providersOf } from './providers.ts';

interface Service {
  /** Shell line that starts the app at the port in `$PORT`. */
  readonly command: string;
  readonly language: 'python' | 'javascript';
  /** Adapter and the like, by path. */
  readonly files?: Readonly<Record<string, string>>;
  readonly build?: readonly string[];
  readonly notes?: readonly (string | undefined)[];
  /** Path that answers once the app is up. @default / */
  readonly path?: string;
}

/** Makes a service of an app that listens, with a test that starts it. */
export function webService(project: Project, service: Service): Adaptation {
  const test = service.language === 'python' ? PYTHON_TEST : NODE_TEST;
  return {
    manifest: {
      run_mode: 'always_on',
      supported_providers: providersOf(project).supported,
      runtime: { command: service.command },
      ...(service.build && { build: service.build }),
    },
    files: { ...service.files, [test.file]: test.text(service.path ?? '/') },
    notes: (service.notes ?? []).filter((note) => note !== undefined),
  };
}

/**
 * Makes a service of an app for Node: of a file that listens itself, or of an exported app by an adapter.
 *
 * @param server Code of the adapter that listens at `$PORT` for the imported `entry`.
 */
export function nodeService(project: Project, entry: Entry, server: string): Adaptation {
  if (entry.name === undefined) {
    return webService(project, {
      language: 'javascript',
      ...startOf(project, entry.file),
      notes: [portNote(project, entry.file)],
    });
  }
  const text = `${adapterHead(entry)}// Serves ${entry.file} at the port of the platform. \`platform init --from\` wrote this file once.\n${importOf(entry)}\n${server}`;
  return webService(project, {
    language: 'javascript',
    command: `node ${adapterOf(entry)}`,
    files: { [adapterOf(entry)]: text },
    ...withoutBuild(project),
  });
}

/** Warns of an app that listens on a port of its own choice. */
export function portNote(project: Project, file: string): string | undefined {
  const text = project.textOf(file) ?? '';
  const port = /\b(?:listen\(\s*|port\s*[:=]\s*|server_port\s*=\s*)(\d{2,5})\b/.exec(text)?.[1];
  if (port === undefined || port === '3000' || /\bPORT\b/.test(text)) return undefined;
  return `${file} listens on port ${port}. A service listens on the port in the variable PORT: read it there.`;
}

const PYTHON_TEST = {
  file: 'test_platform.py',
  text: (
    path: string,
  ) => `"""Starts the app as the platform does, and asks for a page: \`python3 -m unittest test_platform\`."""

import json
import os
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class AppTest(unittest.TestCase):
    def test_answers(self):
        with open("agent.json", encoding="utf-8") as file:
            command = json.load(file)["runtime"]["command"]
        port = free_port()
        app = subprocess.Popen(["sh", "-c", command], env={**os.environ, "PORT": str(port)}, start_new_session=True)
        try:
            for _ in range(300):
                self.assertIsNone(app.poll(), "The app ended.")
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}${path}") as answer:
                        status = answer.status
                except urllib.error.HTTPError as error:
                    status = error.code
                except OSError:
                    time.sleep(0.2)
                    continue
                self.assertLess(status, 500)
                return
            self.fail("The app did not listen within a minute.")
        finally:
            os.killpg(app.pid, signal.SIGTERM)
            app.wait()


if __name__ == "__main__":
    unittest.main()
`,
};

const NODE_TEST = {
  file: 'platform.test.mjs',
  text: (
    path: string,
  ) => `// Starts the app as the platform does, and asks for a page: \`node --test platform.test.mjs\`.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import test from 'node:test';
import { setTimeout } from 'node:timers/promises';

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

test('the app answers', async () => {
  const { command } = JSON.parse(readFileSync('agent.json', 'utf8')).runtime;
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), PATH: \`node_modules/.bin:\${process.env.PATH}\` };
  const app = spawn('sh', ['-c', command], { env, stdio: 'inherit', detached: true });
  try {
    for (let tries = 0; tries < 300; tries++) {
      assert.equal(app.exitCode, null, 'The app ended.');
      const answer = await fetch(\`http://127.0.0.1:\${port}${path}\`).catch(() => undefined);
      if (answer !== undefined) return assert.ok(answer.status < 500, \`The app answered \${answer.status}.\`);
      await setTimeout(200);
    }
    assert.fail('The app did not listen within a minute.');
  } finally {
    if (app.exitCode === null) process.kill(-app.pid, 'SIGTERM');
  }
});
`,
};
