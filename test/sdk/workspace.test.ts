import { afterAll, expect, test } from 'vitest';
import { clientOf, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';

const target = await startLocalTarget();
afterAll(() => target.close());
const client = clientOf(target);

/** The same program in both languages, using only what every run has. */
const PROGRAMS = {
  javascript: {
    'main.mjs': `import { message, storage, task } from 'agent-platform-sdk';
const late = await task.create({ title: 'late', due_date: '2020-01-01', project: 'sdk-js', priority: 'high' });
await task.update(late.id, { description: 'of JavaScript' });
const overdue = await task.list({ project: 'sdk-js', overdue: true });
const done = await task.complete(late.id);
const fresh = await task.create({ title: 'gone' });
await task.delete(fresh.id);
const gone = await task.get(fresh.id).catch((error) => error.code);
const first = await storage.set('sdk-js', 'state', { runs: 0 }, { version: 0 });
const conflict = await storage.set('sdk-js', 'state', {}, { version: 0 }).catch((error) => error.constructor.name);
await Promise.all(Array.from({ length: 4 }, () =>
  storage.update('sdk-js', 'state', (value) => ({ runs: value.runs + 1 }), { retries: 50 })));
const { value, updated_by } = await storage.patch('sdk-js', 'state', { by: 'patch' });
const keys = await storage.list('sdk-js');
const had = [await storage.delete('sdk-js', 'state'), await storage.delete('sdk-js', 'state')];
await storage.set('sdk-js', 'other', []);
const deleted = await storage.deleteNamespace('sdk-js');
const sent = await message.send('Hello', 'from inside', { level: 'success', metadata: { a: 1 } });
console.log(JSON.stringify({
  overdue: overdue.map(({ title, created_by, description }) => [title, created_by, description]),
  status: [done.status, done.completed_at !== null], gone, first: first.version, conflict, value, updated_by, keys, had,
  deleted, absent: await storage.get('sdk-js', 'other'), sent: [sent.agent_name, sent.level],
}));`,
  },
  python: {
    'main.py': `import json
from concurrent.futures import ThreadPoolExecutor
from agent_platform import PlatformError, message, storage, task
from agent_platform.errors import StorageConflictError

late = task.create("late", due_date="2020-01-01", project="sdk-py", priority="high")
task.update(late["id"], description="of Python")
overdue = task.list(project="sdk-py", overdue=True)
done = task.complete(late["id"])
fresh = task.create("gone")
task.delete(fresh["id"])
try:
    gone = task.get(fresh["id"])
except PlatformError as error:
    gone = error.code
first = storage.set("sdk-py", "state", {"runs": 0}, version=0)
try:
    conflict = storage.set("sdk-py", "state", {}, version=0)
except StorageConflictError as error:
    conflict = type(error).__name__
with ThreadPoolExecutor(4) as pool:
    add = lambda _: storage.update("sdk-py", "state", lambda value: {"runs": value["runs"] + 1}, retries=50)
    list(pool.map(add, range(4)))
document = storage.patch("sdk-py", "state", {"by": "patch"})
keys = storage.list("sdk-py")
had = [storage.delete("sdk-py", "state"), storage.delete("sdk-py", "state")]
storage.set("sdk-py", "other", [])
deleted = storage.delete_namespace("sdk-py")
sent = message.send("Hello", "from inside", level="success", metadata={"a": 1})
print(json.dumps({
    "overdue": [[each["title"], each["created_by"], each["description"]] for each in overdue],
    "status": [done["status"], done["completed_at"] is not None], "gone": gone, "first": first["version"],
    "conflict": conflict, "value": document["value"], "updated_by": document["updated_by"], "keys": keys, "had": had,
    "deleted": deleted, "absent": storage.get("sdk-py", "other"), "sent": [sent["agent_name"], sent["level"]],
}))`,
  },
} as const;

const { python, node } = target.interpreters;
test.skipIf(!node).each([['javascript', 'node main.mjs', 'JavaScript']] as const)('%s', run);
test.skipIf(!python).each([['python', 'python3 main.py', 'Python']] as const)('%s', run);

/** The SDK needs only the run's own key, and works in the run's workspace. */
async function run(language: keyof typeof PROGRAMS, command: string, shown: string): Promise<void> {
  const name = `sdk-${language}`;
  await publishCode(client, name, PROGRAMS[language], { runtime: { command } });
  const answer = await request(target, 'POST', `/acme/${name}/v1/run`, { key: target.key, json: {} });
  expect(answer.body.data, JSON.stringify(answer.body)).toEqual({
    overdue: [['late', name, `of ${shown}`]],
    status: ['done', true],
    gone: 'NOT_FOUND',
    first: 1,
    conflict: 'StorageConflictError',
    value: { runs: 4, by: 'patch' },
    updated_by: `acme/${name}@v1`,
    keys: ['state'],
    had: [true, false],
    deleted: 1,
    absent: null,
    sent: [name, 'success'],
  });
  const messages = await request(target, 'GET', `/messages?agent_name=${name}`, { key: target.key });
  expect(messages.body).toMatchObject({ total: 1, messages: [{ body: 'from inside', metadata: { a: 1 } }] });
}
