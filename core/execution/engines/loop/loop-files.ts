import { fileTypeOf } from '#core/base/file-type.ts';
import { sizeText } from '#core/base/size-text.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { fileProblem, type ModelFile, modelFileOf } from '#core/models/file-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmFile, LlmMessage } from '#core/ports/llm.ts';
import { MAX_FILE_BYTES } from '../../input/prompt-input.ts';
import type { EngineRun } from '../engine.ts';

/** Maximum size of one file that a model is shown: 5 MB in base64. */
export const MAX_SHOWN_BYTES = 3.75 * 1024 ** 2;
/** Maximum number of files in one run: they stay in the conversation, so every request contains all of them. */
const MAX_SHOWN_FILES = 20;

const NOT_SHOWN = '[It is not shown: this model cannot look at it.]';

/** Images and PDFs that one run's model is shown (`docs/interface/files.md#loops`). */
export class LoopFiles {
  readonly #deps: Pick<Deps, 'modelTable'>;
  readonly #models: readonly ModelChoice[];
  readonly #shown = new Map<LlmFile, ModelFile>();
  #bytes = 0;

  constructor(deps: Pick<Deps, 'modelTable'>, { models }: Pick<EngineRun, 'models'>) {
    this.#deps = deps;
    this.#models = models;
  }

  /** Returns the uploaded images of the call that can be shown. */
  uploaded({ uploads }: EngineRun['input']): LlmFile[] {
    return uploads.flatMap(({ content, name, path }) => {
      const file =
        content.byteLength > MAX_SHOWN_BYTES
          ? undefined
          : modelFileOf(content, fileTypeOf(content), { title: name, path });
      return file?.kind === 'image' && this.#problem(file) === undefined ? this.#add(file) : [];
    });
  }

  /** Returns a file of the sandbox as a tool's result: its description, and the file itself if it can be shown. */
  show(file: ModelFile): { readonly text: string; readonly files?: readonly LlmFile[] } {
    const text = descriptionOf(file);
    const problem = this.#problem(file);
    return problem === undefined
      ? { text, files: [this.#add(file)] }
      : { text: `${text}\n[It is not shown: ${problem}]` };
  }

  /** Returns a stored message or result with its files as they can be shown again. */
  restored<T extends LlmMessage | { readonly files?: readonly LlmFile[] }>(part: T): T {
    if ('results' in part) return { ...part, results: part.results.map((result) => this.restored(result)) };
    if (!('files' in part) || part.files === undefined) return part;
    return { ...part, files: part.files.map((file) => this.#restoredFile(file)) };
  }

  #restoredFile({ name, bytes }: LlmFile): LlmFile {
    const known = [...this.#shown.values()].find(
      (file) => file.name === name && Buffer.compare(file.bytes, bytes) === 0,
    );
    return known ?? this.#add(modelFileOf(bytes, fileTypeOf(bytes), { title: name, path: name })!);
  }

  /** Returns the conversation for one model, without the files that it does not accept. */
  messagesFor(choice: ModelChoice, messages: readonly LlmMessage[]): readonly LlmMessage[] {
    if ([...this.#shown.values()].every((file) => this.#takes(choice, file))) return messages;
    const taken = (files: readonly LlmFile[]) => files.filter((file) => this.#takes(choice, this.#shown.get(file)!));
    return messages.map((message) => {
      if (message.role === 'user' && message.files) return { ...message, files: taken(message.files) };
      if (message.role !== 'tool') return message;
      const results = message.results.map((result) => {
        if (result.files === undefined) return result;
        const files = taken(result.files);
        return files.length > 0 ? { ...result, files } : { ...result, files, text: `${result.text}\n${NOT_SHOWN}` };
      });
      return { ...message, results };
    });
  }

  #add(file: ModelFile): LlmFile {
    this.#shown.set(file, file);
    this.#bytes += file.bytes.byteLength;
    return file;
  }

  /** Returns a sentence why no model of the run can be shown another file; undefined if one can. */
  #problem(file: ModelFile): string | undefined {
    if (this.#shown.size >= MAX_SHOWN_FILES) return `a run shows ${MAX_SHOWN_FILES} files at most.`;
    if (this.#bytes + file.bytes.byteLength > MAX_FILE_BYTES) {
      return `the files that a run shows have ${sizeText(MAX_FILE_BYTES)} together at most.`;
    }
    if (this.#models.some((choice) => this.#takes(choice, file))) return undefined;
    const [choice] = this.#models as [ModelChoice];
    return fileProblem(choice, this.#deps.modelTable.factsOf(choice.model), [file])!.message;
  }

  #takes(choice: ModelChoice, file: ModelFile): boolean {
    return fileProblem(choice, this.#deps.modelTable.factsOf(choice.model), [file]) === undefined;
  }
}

const KINDS = { image: 'An image', pdf: 'A PDF', audio: 'A recording' };

/** Describes a file, for example `An image (image/png), 812x400, 90 KB`. */
function descriptionOf({ kind, mediaType, size, pages, bytes }: ModelFile): string {
  return [
    kind === 'pdf' ? KINDS.pdf : `${KINDS[kind]} (${mediaType})`,
    ...(size === undefined ? [] : [`${size.width}x${size.height}`]),
    ...(pages ? [`${pages} ${pages === 1 ? 'page' : 'pages'}`] : []),
    sizeText(bytes.byteLength),
  ].join(', ');
}
