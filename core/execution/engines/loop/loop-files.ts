import { fileTypeOf } from '#core/base/file-type.ts';
import { sizeText } from '#core/base/size-text.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import { fileProblem, type ModelFile, modelFileOf } from '#core/models/file-limits.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmFile, LlmMessage } from '#core/ports/llm.ts';
import { MAX_FILE_BYTES } from '../../input/prompt-input.ts';
import type { EngineRun } from '../engine.ts';

/** Of one file that a model is shown: 5 MB in base64. */
export const MAX_SHOWN_BYTES = 3.75 * 1024 ** 2;
/** Of one run: they stay in the conversation, and every request has all of them. */
const MAX_SHOWN_FILES = 20;

const NOT_SHOWN = '[It is not shown: this model cannot look at it.]';

/** The images and PDFs that the model of one run is shown (`docs/interface/files.md#loops`). */
export class LoopFiles {
  readonly #deps: Pick<Deps, 'modelTable'>;
  readonly #models: readonly ModelChoice[];
  readonly #shown = new Map<LlmFile, ModelFile>();
  #bytes = 0;

  constructor(deps: Pick<Deps, 'modelTable'>, { models }: Pick<EngineRun, 'models'>) {
    this.#deps = deps;
    this.#models = models;
  }

  /** The images that came with the call, as far as they can be shown. */
  uploaded({ uploads }: EngineRun['input']): LlmFile[] {
    return uploads.flatMap(({ content, name, path }) => {
      const file =
        content.byteLength > MAX_SHOWN_BYTES
          ? undefined
          : modelFileOf(content, fileTypeOf(content), { title: name, path });
      return file?.kind === 'image' && this.#problem(file) === undefined ? this.#add(file) : [];
    });
  }

  /** A file of the sandbox as the result of a tool: what it is, and itself if it can be shown. */
  show(file: ModelFile): { readonly text: string; readonly files?: readonly LlmFile[] } {
    const text = descriptionOf(file);
    const problem = this.#problem(file);
    return problem === undefined
      ? { text, files: [this.#add(file)] }
      : { text: `${text}\n[It is not shown: ${problem}]` };
  }

  /** The conversation for one model, without the files that it does not take. */
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

  /** Why no model of the run can be shown one more file; with a full stop. */
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

/** `An image (image/png), 812x400, 90 KB`. */
function descriptionOf({ kind, mediaType, size, pages, bytes }: ModelFile): string {
  return [
    kind === 'pdf' ? KINDS.pdf : `${KINDS[kind]} (${mediaType})`,
    ...(size === undefined ? [] : [`${size.width}x${size.height}`]),
    ...(pages ? [`${pages} ${pages === 1 ? 'page' : 'pages'}`] : []),
    sizeText(bytes.byteLength),
  ].join(', ');
}
