import { derivedUuid } from '#core/base/derived-uuid.ts';
import { asPrintableLine } from '#core/http/printable-line.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Question, ShowQuestion } from '#core/ports/questions.ts';
import { MessageStore } from './messages/store.ts';
import { TaskStore } from './tasks/store.ts';

/** Project of the tasks. */
const PROJECT = 'Approvals';
const MAX_TEXT_CHARACTERS = 2000;

/**
 * Shows questions of runs as tasks and messages of their workspace (`docs/interface/approvals.md#tasks-and-messages`). They
 * name the tool, but not its arguments: agents can read tasks and messages. A task decides nothing, whoever changes it.
 */
export const questionListener =
  (deps: Pick<Deps, 'main' | 'clock' | 'ids'>): ShowQuestion =>
  async (question) => {
    const tasks = new TaskStore(deps, question.workspaceId);
    const taskId = derivedUuid('task', question.id);
    if (question.state !== 'waiting') {
      const task = await tasks.get(taskId);
      const isOpen = task?.status === 'open' || task?.status === 'in_progress';
      if (isOpen) await tasks.update(taskId, { status: question.state === 'decided' ? 'done' : 'cancelled' });
      return;
    }
    const { agentName, id } = question;
    const title = titleOf(question);
    const description = textOf(question);
    const dueDate = isoTime(question.expiresAt).slice(0, 10);
    await tasks.ensure(taskId, { title, description, dueDate, project: PROJECT, priority: 'high' }, agentName);
    const metadata = { approval_id: id, task_id: taskId };
    const message = { title, body: description, level: 'warning', agentName, metadata } as const;
    await new MessageStore(deps, question.workspaceId).ensure(derivedUuid('message', id), message);
  };

const titleOf = ({ agentName, tool, text }: Question): string =>
  asPrintableLine(text === undefined ? `${agentName} asks for approval of ${tool}` : `${agentName} asks: ${text}`, 200);

function textOf({ id, text, expiresAt }: Question): string {
  const asked = text === undefined ? '' : `${text.slice(0, MAX_TEXT_CHARACTERS).toWellFormed()}\n\n`;
  const answer = text === undefined ? '' : ' --answer TEXT';
  return `${asked}A run waits until ${isoTime(expiresAt)}. To decide: platform approve ${id}${answer}`;
}
