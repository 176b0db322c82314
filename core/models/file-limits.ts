import { type FileType, type ImageSize, imageSizeOf, pdfPagesOf } from '#core/base/file-type.ts';
import { sizeText } from '#core/base/size-text.ts';
import type { LlmFile } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import type { ModelChoice } from './choose.ts';
import { either, rowOf } from './providers.ts';

/** A file for a model, with the properties that providers limit. */
export interface ModelFile extends LlmFile {
  readonly kind: 'image' | 'pdf' | 'audio';
  /** Name that the sender gave it, for error messages. */
  readonly title: string;
  readonly size?: ImageSize;
  /** Number of pages of a PDF, as far as they can be counted. */
  readonly pages?: number;
}

const MANY_IMAGES = 20;
const SMALL_WINDOW = 200_000;

const KIND_NAMES = { image: 'images', pdf: 'PDF', audio: 'audio' };

export interface FileProblem {
  readonly code: 'UNSUPPORTED_TYPE' | 'DOCUMENT_TOO_LARGE';
  /** Message that names the file, the provider and the limit. */
  readonly message: string;
}

/** Returns why these files cannot be part of one request to the model; `undefined` if they can. */
export function fileProblem(
  { provider, model, transport }: Pick<ModelChoice, 'provider' | 'model' | 'transport'>,
  { inputs, window = Number.POSITIVE_INFINITY }: ModelFacts,
  files: readonly ModelFile[],
): FileProblem | undefined {
  const { title: name, files: limits } = rowOf(provider);
  const taken = inputs ?? limits.usualInputs;
  const fits = window > SMALL_WINDOW ? 0 : 1;
  const images = files.filter(({ kind }) => kind === 'image');
  for (const file of files) {
    const shown = shownName(file.title);
    const types = limits[file.kind];
    if (types.length === 0) return unsupported(`${name} takes no ${KIND_NAMES[file.kind]}, which ${shown} is.`);
    if (!taken.includes(file.kind)) {
      return unsupported(`The model ${model} of ${name} takes no ${KIND_NAMES[file.kind]}, which ${shown} is.`);
    }
    if (!types.includes(file.mediaType)) {
      return unsupported(`${shown} is ${file.mediaType}; ${name} takes ${either(types)}.`);
    }
    if (file.kind !== 'image') continue;
    const { imageBytes = Number.POSITIVE_INFINITY, imagePixels } = limits;
    if (file.bytes.byteLength > imageBytes) {
      const size = sizeText(file.bytes.byteLength);
      return tooLarge(`${shown} has ${size}; ${name} accepts images of at most ${imageBytes / 1024 ** 2} MB.`);
    }
    const maxPixels = imagePixels?.[images.length > MANY_IMAGES ? 1 : 0] ?? Number.POSITIVE_INFINITY;
    const { width = 0, height = 0 } = file.size ?? {};
    if (Math.max(width, height) > maxPixels) {
      const reason = images.length > MANY_IMAGES ? ` in a request of more than ${MANY_IMAGES} images` : '';
      return tooLarge(
        `${shown} has ${width}x${height} pixels; ${name} accepts at most ${maxPixels} on each side${reason}.`,
      );
    }
  }
  const maxImages = limits.images?.[fits] ?? Number.POSITIVE_INFINITY;
  if (images.length > maxImages) {
    return tooLarge(
      `There are ${images.length} images; ${name} accepts at most ${maxImages} in a request of ${model}.`,
    );
  }
  const maxPages = limits.pages?.[transport?.via === 'bedrock' ? 1 : fits] ?? Number.POSITIVE_INFINITY;
  const pages = files.reduce((sum, file) => sum + (file.pages ?? 0), 0);
  if (pages > maxPages) {
    const longest = files.reduce((most, file) => ((file.pages ?? 0) > (most.pages ?? 0) ? file : most));
    const list = `${shownName(longest.title)}${files.filter((file) => file.pages).length > 1 ? ' and the other PDFs have' : ' has'}`;
    return tooLarge(`${list} ${pages} pages; ${name} accepts at most ${maxPages} in a request of ${model}.`);
  }
  return undefined;
}

const unsupported = (message: string): FileProblem => ({ code: 'UNSUPPORTED_TYPE', message });
const tooLarge = (message: string): FileProblem => ({ code: 'DOCUMENT_TOO_LARGE', message });

/** Returns the sender's file name in quotes, on one line. */
export const shownName = (title: string): string =>
  JSON.stringify(title.length > 100 ? `${title.slice(0, 99)}…` : title);

/**
 * Returns a file of this type for a model; `undefined` if no model accepts the type unchanged. `path` is a safe name.
 */
export function modelFileOf(
  bytes: Uint8Array,
  { kind, mediaType }: FileType,
  { title, path }: { readonly title: string; readonly path: string },
): ModelFile | undefined {
  if (kind === 'text' || kind === 'other') return undefined;
  const name = path.slice(path.lastIndexOf('/') + 1);
  return {
    // OpenAI also checks the extension.
    name: kind === 'pdf' && !/\.pdf$/i.test(name) ? `${name}.pdf` : name,
    mediaType,
    bytes,
    kind,
    title,
    ...(kind === 'image' && { size: imageSizeOf(bytes, mediaType) }),
    ...(kind === 'pdf' && { pages: pdfPagesOf(bytes) }),
  };
}
