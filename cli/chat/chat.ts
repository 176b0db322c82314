import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { EXIT, UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import type { Json } from '#core/base/json.ts';
import { textOfAnswer } from '#core/execution/calls/answer-text.ts';
import { shortId } from '../operation.ts';
import type { AgentReference } from '../shared/agent-reference.ts';
import type { Cli } from '../shared/cli.ts';
import { failureOf, failureText } from '../shared/failure.ts';
import { type Answer, FollowedRun } from '../shared/followed-run.ts';
import { printable, table, textOf } from '../shared/output.ts';
import { RunProgress } from '../shared/run-progress.ts';
import { isResponse } from '../signing-in/connection.ts';
import { AnswerView } from './answer-view.ts';
import { Decisions } from './decisions.ts';
import { LinesReader, type MessageReader, TerminalReader } from './message-reader.ts';

type Session = Awaited<ReturnType<Client['getAgentSession']>>;

interface ChatOptions {
  /** Id of a session, or a name of the user's own. @default - the user's last session of a terminal */
  readonly session?: string;
  /** Whether a new session begins. */
  readonly isNew: boolean;
  readonly tenant?: string;
}

/** Says in the metadata of a session that a terminal opened it. */
const CLIENT = 'cli';
const SESSION_ID = /^ses_[0-9a-f]{32}$/;
/** How many sessions are shown, and are looked through for the user's last one. */
const NEWEST = 20;

/** A conversation at a terminal, or in a pipe. */
export class Chat {
  readonly #cli: Cli;
  readonly #client: Client;
  readonly #workspaceId: string;
  readonly #agent: AgentReference;
  readonly #options: ChatOptions;
  readonly #terminal: TerminalReader | undefined;
  /** Opened by the first message, unless it was there before. */
  #session: Session | undefined;
  /** Name of the session that the next message opens. */
  #externalId: string | undefined;
  /** The answer that is awaited. Ctrl-C stops its run, and leaves the second time. */
  #current: { runId?: string; isStopped: boolean } | undefined;

  private constructor(cli: Cli, client: Client, workspaceId: string, agent: AgentReference, options: ChatOptions) {
    this.#cli = cli;
    this.#client = client;
    this.#workspaceId = workspaceId;
    this.#agent = agent;
    this.#options = options;
    this.#terminal = cli.isInteractive ? new TerminalReader(cli.host) : undefined;
  }

  /** Talks until the input ends, or the user leaves. Throws the error of a message that was not typed at a terminal. */
  static async hold(cli: Cli, agent: AgentReference, options: ChatOptions): Promise<void> {
    const chat = new Chat(cli, await cli.client(), await cli.workspaceId(), agent, options);
    const stop = cli.host.onInterrupt(() => chat.#interrupt());
    const reader: MessageReader = chat.#terminal ?? new LinesReader(cli.host);
    try {
      await chat.#find();
      await chat.#greet();
      await chat.#talk(reader);
    } finally {
      stop();
      reader.close();
    }
  }

  async #talk(reader: MessageReader): Promise<void> {
    for (;;) {
      const text = await reader.message();
      if (text === undefined) return;
      if (this.#terminal === undefined) {
        await this.#say(text);
        continue;
      }
      try {
        if (!(await this.#act(text))) return;
      } catch (error) {
        this.#cli.output.error(failureText(this.#cli, await failureOf(error, this.#cli.last)));
      }
    }
  }

  /** Does what a line at a terminal says. Returns whether the chat continues. */
  async #act(text: string): Promise<boolean> {
    const [first = '', ...words] = text.trim().split(' ');
    const name = /^\/([a-z]+)$/.exec(first)?.[1];
    if (name === undefined) {
      await this.#say(text);
      return true;
    }
    const argument = words.join(' ').trim();
    const { output } = this.#cli;
    switch (name) {
      case 'exit':
        return false;
      case 'new':
        this.#session = undefined;
        this.#externalId = undefined;
        output.note('The next message begins a new conversation.');
        break;
      case 'sessions':
        await this.#list();
        break;
      case 'fork':
        await this.#fork(argument);
        break;
      case 'export':
        await this.#export(argument);
        break;
      case 'title':
        await this.#entitle(argument);
        break;
      case 'help':
        output.note(HELP);
        break;
      default:
        throw new UsageError(`There is no command /${name}.`, { hint: '/help lists the commands.' });
    }
    return true;
  }

  async #say(text: string): Promise<void> {
    this.#session ??= await this.#open();
    this.#current = { isStopped: false };
    try {
      const answer = await this.#answerTo(text, this.#session);
      for (const { code, message } of answer.warnings ?? []) this.#cli.output.warn(`${code}: ${message}`);
    } catch (error) {
      if (!this.#current.isStopped || (error as { readonly code?: string }).code !== 'RUN_CANCELLED') throw error;
      if (this.#terminal === undefined) throw new UsageError('Stopped.', { exitCode: EXIT.interrupted });
      this.#cli.output.note(this.#cli.output.style('dim', 'Stopped.'));
    } finally {
      this.#current = undefined;
    }
  }

  async #answerTo(text: string, session: Session): Promise<Answer> {
    const view = new AnswerView(this.#cli.output);
    const params = { workspace_id: this.#workspaceId, session_id: session.id };
    const sent = await this.#client.sendSessionMessage({
      params,
      body: { text },
      headers: { ...this.#headers(), accept: 'text/event-stream', 'idempotency-key': crypto.randomUUID() },
    });
    const answer = await this.#read(sent, view);
    const words = textOfAnswer((answer.data ?? null) as Json);
    view.end(words);
    if (this.#cli.output.isJson) {
      this.#cli.output.item({ session_id: session.id, text: words, ...answer }, String);
    }
    return answer;
  }

  /** Shows the answer while it is written, and returns it. Throws the run's error. */
  async #read(sent: unknown, view: AnswerView): Promise<Answer> {
    const accepted = isResponse(sent) ? undefined : (sent as Answer);
    if (accepted !== undefined && accepted.data !== undefined) return accepted;
    const runId = isResponse(sent) ? (sent.headers.get('x-run-id') ?? '') : accepted!.run_id!;
    this.#current!.runId = runId;
    const decisions = new Decisions(this.#cli, this.#client, this.#workspaceId, this.#terminal, () =>
      this.#interrupt(),
    );
    const progress = new RunProgress(this.#cli, (record) => {
      if (record.type === 'waiting') {
        view.pause();
        run.bar.hide(true);
        decisions.ask(record);
        return;
      }
      if (record.type === 'resumed') {
        decisions.stop();
        run.bar.hide(false);
      }
      view.show(record);
    });
    const run = new FollowedRun(this.#cli, this.#client, runId, async () => this.#workspaceId, progress);
    try {
      const answer = await (isResponse(sent) ? run.readStream(sent) : run.follow());
      return { run_id: runId, ...answer };
    } finally {
      run.bar.end();
      decisions.stop();
      view.pause();
    }
  }

  #interrupt(): void {
    const { exit } = this.#cli.host;
    const run_id = this.#current?.runId;
    if (this.#current === undefined || this.#current.isStopped || !run_id) {
      exit(EXIT.interrupted);
      return;
    }
    this.#current.isStopped = true;
    this.#cli.output.note('\nStopping the run. Press Ctrl-C again to leave.');
    // A failure needs no message: the run has ended, or the user sees that it continues and may leave.
    void this.#client.cancelRun({ params: { workspace_id: this.#workspaceId, run_id } }).catch(() => {});
  }

  /** Finds the session that the options name, or else the user's last one, unless the first message opens one. */
  async #find(): Promise<void> {
    const { session, isNew } = this.#options;
    if (session !== undefined && SESSION_ID.test(session)) {
      const params = { workspace_id: this.#workspaceId, session_id: session };
      this.#session = await this.#client.getAgentSession({ params, headers: this.#headers() });
      const own = `${this.#agent.org}/${this.#agent.agent}`;
      if (this.#session.agent === own) return;
      throw new UsageError(`The session is a conversation with ${this.#session.agent}, not with ${own}.`);
    }
    this.#externalId = session;
    if (session !== undefined) this.#session = await this.#open();
    else if (!isNew && this.#terminal !== undefined) this.#session = await this.#last();
  }

  async #last(): Promise<Session | undefined> {
    const [{ user }, sessions] = await Promise.all([this.#client.getMe({}), this.#newest()]);
    return sessions.find(({ metadata }) => metadata.client === CLIENT && metadata.user_id === user.id);
  }

  async #newest(): Promise<readonly Session[]> {
    const { sessions } = await this.#client.listSessions({
      params: { workspace_id: this.#workspaceId },
      query: {
        agent: `${this.#agent.org}/${this.#agent.agent}`,
        limit: NEWEST,
        ...(this.#options.tenant !== undefined && { tenant_id: this.#options.tenant }),
      },
      headers: this.#headers(),
    });
    return sessions;
  }

  async #open(): Promise<Session> {
    const { org, agent, version } = this.#agent;
    const { user } = await this.#client.getMe({});
    return this.#client.openSession({
      params: { workspace_id: this.#workspaceId },
      headers: this.#headers(),
      body: {
        agent: `${org}/${agent}`,
        metadata: { client: CLIENT, user_id: user.id },
        ...(this.#externalId !== undefined && { external_id: this.#externalId }),
        ...(version !== 'latest' && { pin_version: version }),
      },
    });
  }

  async #greet(): Promise<void> {
    if (this.#terminal === undefined) return;
    const { output } = this.#cli;
    const { org, agent } = this.#agent;
    output.note(`${output.style('bold', `${org}/${agent}`)}  /help lists the commands, Ctrl-D leaves.`);
    if (this.#session === undefined || this.#session.messages === 0) return;
    const { id, messages, title } = this.#session;
    const name = title === null ? shortId(id) : `${textOf(title)} (${shortId(id)})`;
    output.note(`Continuing ${name} after ${messages} messages; /new begins another conversation.`);
    const { items } = await this.#client.listSessionMessages({
      params: { workspace_id: this.#workspaceId, session_id: id },
      query: { limit: 1, order: 'desc' },
      headers: this.#headers(),
    });
    for (const { input, output: answer } of items) {
      output.note(output.style('dim', `> ${textOf(textOfAnswer(input as Json))}`));
      if (answer !== null) output.note(output.style('dim', printable(textOfAnswer(answer as Json))));
    }
  }

  async #list(): Promise<void> {
    const { output } = this.#cli;
    const rows = (await this.#newest()).map(({ id, title, messages, status, last_message_at }) => [
      id === this.#session?.id ? '*' : '',
      id,
      String(messages),
      output.status(status),
      textOf(last_message_at),
      textOf(title),
    ]);
    if (rows.length === 0) return output.note('There are no sessions yet.');
    output.note(table(['', 'id', 'messages', 'status', 'last message', 'title'], rows, output.width));
  }

  async #fork(after: string): Promise<void> {
    if (!/^\d+$/.test(after)) throw new UsageError('Missing number: /fork 2 continues after the second message.');
    const params = this.#params();
    this.#session = await this.#client.forkSession({
      params,
      headers: this.#headers(),
      body: { after: Number(after) },
    });
    this.#cli.output.note(`Continuing after message ${after} in ${this.#session.id}.`);
  }

  async #export(file: string): Promise<void> {
    if (file === '') throw new UsageError('Missing file: /export chat.jsonl.');
    const exported = await this.#client.exportSession({ params: this.#params(), headers: this.#headers() });
    const text = isResponse(exported) ? await exported.text() : `${JSON.stringify(exported)}\n`;
    const path = resolve(this.#cli.host.cwd, file);
    try {
      await writeFile(path, text, { flag: 'wx', mode: 0o600 });
    } catch (error) {
      throw new UsageError(`${file} cannot be written: ${(error as NodeJS.ErrnoException).code}.`);
    }
    this.#cli.output.note(`Wrote the conversation to ${file}.`);
  }

  async #entitle(title: string): Promise<void> {
    if (title === '') throw new UsageError('Missing title: /title The order of Ada.');
    this.#session = await this.#client.updateSession({
      params: this.#params(),
      headers: this.#headers(),
      body: { title },
    });
  }

  #params(): { readonly workspace_id: string; readonly session_id: string } {
    if (this.#session === undefined) throw new UsageError('The conversation has not begun yet.');
    return { workspace_id: this.#workspaceId, session_id: this.#session.id };
  }

  #headers(): Record<string, string> {
    const { tenant } = this.#options;
    return tenant === undefined ? {} : { 'x-platform-tenant': tenant };
  }
}

const HELP = `/new           begin a new conversation
/sessions      list the newest conversations with this agent
/fork N        continue after message N, in a new conversation
/title TEXT    give the conversation a title
/export FILE   write the conversation to a file, as JSON lines
/exit          leave; Ctrl-D does the same
A backslash at the end of a line continues the message in the next line. Ctrl-C stops an answer, and leaves the second time.`;
