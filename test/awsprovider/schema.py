"""Writes the schema of Terraform's AWS provider, as `terraform providers schema
-json` would, for the resources and data sources that are asked for.

The provider itself comes from no package registry, but CDK for Terraform's
bindings do, which were generated from its schema: the comments in their sources
say of each attribute whether it is computed, optional or required, and the
sources themselves what type it has and what is a block.

usage: schema.py WHEEL KINDS OUTPUT   (KINDS: a file with lines such as provider,
sqs-queue, data-aws-ami)
"""

import base64
import json
import re
import sys
import tarfile
import zipfile

PRIMITIVES = {"string": "string", "boolean": "bool", "number": "number", "any": "dynamic"}
GETTERS = {
    "getStringAttribute": "string", "getNumberAttribute": "number", "getBooleanAttribute": "bool",
    "getListAttribute": ["list", "string"], "getNumberListAttribute": ["list", "number"],
    "getStringMapAttribute": ["map", "string"], "getNumberMapAttribute": ["map", "number"],
    "getBooleanMapAttribute": ["map", "bool"], "getAnyMapAttribute": ["map", "dynamic"],
}
BY_MEMBER = {"string": "getStringAttribute", "number": "getNumberAttribute", "boolean": "getBooleanAttribute"}
TOP = {"TerraformResource", "TerraformDataSource", "TerraformProvider"}


def storage_type(kind, storage):
    """The type that the bindings' storage class stands for; None for a block's."""
    if storage in PRIMITIVES:
        return PRIMITIVES[storage]
    m = re.match(r"(string|number|boolean|any)(Map|List)$", storage)
    if not m:
        return None
    if m[2] == "Map":
        return ["map", PRIMITIVES[m[1]]]
    return ["set" if kind == "set" else "list", PRIMITIVES[m[1]]]


def hcl_of(body):
    """What the conversion to HCL says of each attribute: block or not, and type."""
    found = re.finditer(r'(\w+): \{\s+value: [^\n]*\n\s+isBlock: (true|false),\s+type: "(\w+)",\s+storageClassType: "(\w+)",', body)
    return {m[1]: {"block": m[2] == "true", "type": m[3], "storage": m[4]} for m in found}


def getter_of(text):
    m = re.search(r"this\.(get\w+Attribute)\(", text)
    if m:
        return m[1]
    m = re.search(r"private _\w+\?: (\w+)", text)
    return BY_MEMBER.get(m[1]) if m else None


class Module:
    """The bindings of one resource, data source or of the provider."""

    def __init__(self, script):
        embedded = re.search(r"sourceMappingURL=data:application/json;base64,(\S+)", script)[1]
        self.source = json.loads(base64.b64decode(embedded))["sourcesContent"][0]
        self.type = re.search(r'\.tfResourceType = "([^"]+)"', script)[1]
        self.classes = dict(map(self.parse_class, re.split(r"^(?:export )?class ", self.source, flags=re.M)[1:]))
        self.hcl = {
            m[1].lower(): hcl_of(m[2])
            for m in re.finditer(r"function (\w+)ToHclTerraform\(struct\?[^)]*\)[^{]*\{([\s\S]*?)\n\}", self.source)
        }
        top = re.search(r"synthesizeHclAttributes\(\)[\s\S]*?const attrs = \{([\s\S]*?)\n    \};", self.source)
        self.top = hcl_of(top[1] if top else "")
        self.main = next(n for n, c in self.classes.items() if c["extends"] in TOP)
        self.extends = self.classes[self.main]["extends"]

    @staticmethod
    def parse_class(text):
        extends = re.match(r"\w+ extends cdktf\.(\w+)", text)
        attributes = {}
        for bit in re.split(r"// (?=\w+ - computed: )", text)[1:]:
            m = re.match(r"(\w+) - computed: (true|false), optional: (true|false), required: (true|false)", bit)
            a = {"computed": m[2] == "true", "optional": m[3] == "true", "required": m[4] == "true", "class": None}
            nested = re.search(r'new (?:cdktf\.)?(\w+)\(this, "\w+"(?:, (true|false))?\)', bit)
            if nested:
                a["class"], a["set"] = nested[1], nested[2] == "true"
            else:
                a["getter"], a["set"] = getter_of(bit), "cdktf.Fn.tolist" in bit
            attributes[m[1]] = a
        return re.match(r"\w+", text)[0], {"extends": extends and extends[1], "attributes": attributes}

    def object_type(self, cls):
        return ["object", {n: self.type_of(n, a, None) for n, a in self.classes[cls]["attributes"].items()}]

    def type_of(self, name, a, hcl):
        known = hcl and storage_type(hcl["type"], hcl["storage"])
        if known:
            return known
        cls = a["class"]
        if cls is None:
            t = GETTERS.get(a["getter"])
            if t is None:
                raise ValueError(f"{self.type}.{name}: no type is known for {a['getter']}")
            return ["set", t[1]] if isinstance(t, list) and t[0] == "list" and a["set"] else t
        if cls.endswith("List") and self.classes.get(cls, {}).get("extends") == "ComplexList":
            return ["set" if a["set"] else "list", self.object_type(cls[:-4] + "OutputReference")]
        m = re.match(r"(String|Number|Boolean|Any)Map$", cls)
        return ["map", PRIMITIVES[m[1].lower()]] if m else self.object_type(cls)

    def block(self, cls, hcl):
        attributes, blocks = {}, {}
        for name, a in self.classes[cls]["attributes"].items():
            h = hcl.get(name)
            if h and h["block"]:
                blocks[name] = self.nested(a, h)
                continue
            flags = {flag: True for flag in ("required", "optional", "computed") if a[flag]}
            attributes[name] = {"type": self.type_of(name, a, h), **flags}
        return {"attributes": attributes, "block_types": blocks}

    def nested(self, a, h):
        base = re.sub("List$", "", h["storage"])
        hcl = self.hcl.get(base.lower(), {})
        if base + "OutputReference" in self.classes:
            block = self.block(base + "OutputReference", hcl)
        else:
            block = self.from_interface(base, hcl)
        if h["type"] == "struct":
            return {"nesting_mode": "single", "block": block}
        t = {"nesting_mode": "set" if h["type"] == "set" else "list", "block": block}
        if a["required"]:
            t["min_items"] = 1
        if not (base + "List" in self.classes and a["class"] == base + "List"):
            t["max_items"] = 1
        return t

    def from_interface(self, name, hcl):
        """The provider's own blocks have no class; what is required stands in the interface."""
        body = re.search(r"export interface " + name + r" \{([\s\S]*?)\n\}", self.source)[1]
        attributes = {}
        for attribute, h in hcl.items():
            camel = re.sub(r"_(\w)", lambda m: m[1].upper(), attribute)
            flag = "optional" if re.search(rf"readonly {camel}\?:", body) else "required"
            attributes[attribute] = {"type": storage_type(h["type"], h["storage"]) or "dynamic", flag: True}
        return {"attributes": attributes, "block_types": {}}

    def schema(self):
        return {"version": 0, "block": self.block(self.main, self.top)}


def scripts(wheel, kinds):
    """The compiled sources of the kinds, out of the archive in the wheel."""
    wanted = {f"package/lib/{kind}/index.js": kind for kind in kinds}
    found = {}
    with zipfile.ZipFile(wheel) as z:
        archive = next(n for n in z.namelist() if n.endswith(".jsii.tgz"))
        with z.open(archive) as f, tarfile.open(fileobj=f, mode="r|gz") as t:
            for member in t:
                if member.name in wanted:
                    found[wanted[member.name]] = t.extractfile(member).read().decode()
    missing = set(kinds) - set(found)
    if missing:
        sys.exit(f"the bindings have no {', '.join(sorted(missing))}")
    return found


def main(wheel, kinds_file, output):
    with open(kinds_file, encoding="utf-8") as f:
        kinds = f.read().split()
    provider = {"resource_schemas": {}, "data_source_schemas": {}}
    for script in scripts(wheel, kinds).values():
        module = Module(script)
        if module.extends == "TerraformResource":
            provider["resource_schemas"][module.type] = module.schema()
        elif module.extends == "TerraformDataSource":
            provider["data_source_schemas"][module.type.removeprefix("data_")] = module.schema()
        else:
            provider["provider"] = module.schema()
    with open(output, "w", encoding="utf-8") as f:
        json.dump(provider, f, sort_keys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
